"""Reading an `MLmodel` file: what a model says about itself. Nothing in it is trusted, and nothing is loaded."""

import json
from typing import Any, TypeAlias

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.registry.yaml_texts import read_yaml

MLMODEL = "MLmodel"
PYFUNC = "python_function"  # the flavour that stands for Python code of any kind
LONGEST = 1000
MOST_FIELDS = 10_000
MOST_FLAVOURS = 100
DEEPEST_TYPE = 20
# Where flavours keep the name of what they load.
_DATA_FIELDS = ("data", "model_data", "model_path", "pickled_model", "python_model", "saved_model_dir", "path")
_ABSENT = ("", "null", "~")


@value
class Column:
    """A column of a table; `type` as MLflow names it: `double`, `long`, `array<string>`. A lone column may have no name."""

    name: str
    type: str
    required: bool = True


@value
class Tensor:
    """`shape` has -1 where any length will do; `name` is empty where the model takes one tensor alone."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@value
class Parameter:
    """What a caller may set for one prediction; `default` is JSON, `shape` None for a single value."""

    name: str
    type: str
    default: str
    shape: tuple[int, ...] | None = None


Field: TypeAlias = Column | Tensor


@value
class ModelSignature:
    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    params: tuple[Parameter, ...] = ()


@value
class Flavour:
    """One way in which the model can be loaded; `files` are the files or folders it names, relative to the model's folder."""

    name: str
    files: tuple[str, ...] = ()


@value
class ModelDescription:
    """`signature` is None where the model has none. Texts are empty where the file does not say."""

    flavours: tuple[Flavour, ...] = ()
    signature: ModelSignature | None = None
    python_version: str = ""
    mlflow_version: str = ""
    model_uuid: str = ""
    model_id: str = ""
    run_id: str = ""
    requirements: tuple[str, ...] = ()  # the files that say what the model needs, as far as it names them


def read(content: bytes) -> ModelDescription:
    """Raises `Invalid` where it is no MLmodel file, and nothing else."""
    document = read_yaml(content, MLMODEL)
    if not isinstance(document, dict):
        raise Invalid(f"{MLMODEL} is expected to hold names with values; it holds {_kind(document)}.")
    flavours = _mapping(document, "flavors")
    if len(flavours) > MOST_FLAVOURS:
        raise Invalid(f"{MLMODEL} has {len(flavours)} flavours; at most {MOST_FLAVOURS} are read.")
    pyfunc = _mapping(flavours, PYFUNC)
    return ModelDescription(
        flavours=tuple(Flavour(name=_short(name), files=_data_files(given)) for name, given in sorted(flavours.items())),
        signature=_signature(_mapping(document, "signature")),
        python_version=_text(pyfunc, "python_version"),
        mlflow_version=_text(document, "mlflow_version"),
        model_uuid=_text(document, "model_uuid"),
        model_id=_text(document, "model_id"),
        run_id=_text(document, "run_id"),
        requirements=_requirements(pyfunc.get("env")),
    )


def _data_files(flavour: Any) -> tuple[str, ...]:
    if not isinstance(flavour, dict):
        return ()
    named = (_text(flavour, field) for field in _DATA_FIELDS)
    return tuple(dict.fromkeys(name.rstrip("/") for name in named if name))


def _requirements(env: Any) -> tuple[str, ...]:
    """MLflow 1 named the conda file alone; later ones name it beside the virtualenv's."""
    if isinstance(env, dict):
        return tuple(name for field in ("conda", "virtualenv") if (name := _text(env, field)))
    return (_short(env),) if isinstance(env, str) and env not in _ABSENT else ()


def _signature(given: dict[str, Any]) -> ModelSignature | None:
    if not given:
        return None
    return ModelSignature(
        inputs=tuple(_field(one) for one in _listed(given, "inputs")),
        outputs=tuple(_field(one) for one in _listed(given, "outputs")),
        params=tuple(_parameter(one) for one in _listed(given, "params")),
    )


def _listed(signature: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """One part of the signature, which is JSON in a YAML text."""
    text = signature.get(part)
    if text is None or text in _ABSENT:
        return []
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise Invalid(f"{MLMODEL}: signature.{part} is expected to be a list in JSON; it is none.") from None
    found = [] if found is None else found
    if not isinstance(found, list) or len(found) > MOST_FIELDS or not all(isinstance(one, dict) for one in found):
        raise Invalid(f"{MLMODEL}: signature.{part} is expected to be a list of at most {MOST_FIELDS} objects.")
    return found


def _field(given: dict[str, Any]) -> Field:
    name = "" if given.get("name") is None else _short(given["name"])
    if given.get("type") == "tensor":
        spec = given.get("tensor-spec")
        if not isinstance(spec, dict):
            raise Invalid(f"{MLMODEL}: the tensor {name!r} of the signature has no `tensor-spec`.")
        return Tensor(name=name, dtype=_short(spec.get("dtype", "")), shape=_shape(spec.get("shape")))
    required = given.get("required", not given.get("optional", False))
    return Column(name=name, type=_type(given, DEEPEST_TYPE), required=required is not False)


def _parameter(given: dict[str, Any]) -> Parameter:
    try:
        default = json.dumps(given.get("default"))
    except RecursionError:
        raise Invalid(f"{MLMODEL}: a default of the signature's parameters is nested too deep.") from None
    return Parameter(
        name=_short(given.get("name", "")),
        type=_type(given, DEEPEST_TYPE),
        default=_short(default),
        shape=None if given.get("shape") is None else _shape(given["shape"]),
    )


def _type(given: Any, depth: int) -> str:
    """`double`, `array<double>`, `map<long>`, `object`: what an object holds is left out."""
    if depth == 0:
        raise Invalid(f"{MLMODEL}: a type of the signature is nested more than {DEEPEST_TYPE} levels deep.")
    if not isinstance(given, dict):
        return _short(given)
    name = _short(given.get("type", ""))
    inner = given.get({"array": "items", "map": "values"}.get(name, ""))
    return name if inner is None else f"{name}<{_type(inner, depth - 1)}>"


def _shape(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or len(given) > 100 or not all(type(one) is int and -1 <= one < 2**63 for one in given):
        raise Invalid(f"{MLMODEL}: a shape of the signature is expected to be a list of whole numbers from -1 up.")
    return tuple(given)


def _mapping(document: dict[str, Any], field: str) -> dict[str, Any]:
    given = document.get(field)
    if given is None or given in _ABSENT:
        return {}
    if not isinstance(given, dict):
        raise Invalid(f"{MLMODEL}: `{field}` is expected to hold names with values; it holds {_kind(given)}.")
    return given


def _text(document: dict[str, Any], field: str) -> str:
    given = document.get(field)
    return _short(given) if isinstance(given, str) and given not in _ABSENT else ""


def _short(given: Any) -> str:
    """A text that a database keeps and a page shows."""
    return str(given)[:LONGEST].replace("\x00", "").encode(errors="replace").decode()


def _kind(given: Any) -> str:
    return "nothing" if given is None or given in _ABSENT else f"a {type(given).__name__}"
