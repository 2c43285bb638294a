"""Whether a version can be served, decided by what its files hold: no model is ever loaded to find out.

What the files are is seen in `formats`; here is decided which of them is the model, and what to tell its owner.
"""

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from falaj.base.values import value
from falaj.registry.formats import litert, openvino
from falaj.registry.formats.content import Content, Malformed, Read
from falaj.registry.formats.onnx import read_onnx
from falaj.registry.formats.sniffing import Kind, kind_of
from falaj.registry.mlmodel import MLMODEL, PYFUNC, Flavour, ModelDescription
from falaj.registry.operations.versions import VersionFile

MOST_FILES = 200  # so many files are looked into, the largest first
NAMED = 5
STRICT: Final = 0.01  # so much may what stands in for a version be certified to lose, where the platform chooses it by itself
# In the order of preference, where a version has the same model in several formats.
RUNTIMES: Final = {
    Kind.ONNX: "onnx",
    Kind.OPENVINO: "openvino",
    Kind.LITERT: "litert",
    Kind.LIGHTGBM: "lightgbm",
    Kind.XGBOOST: "xgboost",
}
NOT_HERE: Final = "Its files are not in Falaj; register a version from a run or a logged model of this project."
# What comes beside a model and never is one.
_COMPANIONS = (MLMODEL, "conda.yaml", "python_env.yaml", "requirements.txt", "input_example.json", "serving_input_example.json")

_LOG_ONNX = "and log it with `mlflow.onnx.log_model`"
_FROM_SKLEARN = f"export it with `skl2onnx.to_onnx(model, X[:1])` {_LOG_ONNX}"
_FROM_TORCH = f'export it with `torch.onnx.export(model, (example,), "model.onnx")` {_LOG_ONNX}'
_FROM_KERAS = f'export it with `model.export("model.onnx", format="onnx")` {_LOG_ONNX}'
_BY_FLAVOUR: Final = {
    "sklearn": _FROM_SKLEARN,
    "lightgbm": "log its booster instead: `mlflow.lightgbm.log_model(model.booster_)`",
    "xgboost": "log its booster instead: `mlflow.xgboost.log_model(model.get_booster())`",
    "pytorch": _FROM_TORCH,
    "tensorflow": _FROM_KERAS,
    "keras": _FROM_KERAS,
    "catboost": f'save it with `model.save_model("model.onnx", format="onnx")` {_LOG_ONNX}',
}
_BY_KIND: Final = {
    Kind.SKOPS: _FROM_SKLEARN,
    Kind.TORCH: _FROM_TORCH,
    Kind.TORCH_PROGRAM: _FROM_TORCH,
    Kind.KERAS: _FROM_KERAS,
    Kind.HDF5: _FROM_KERAS,
    Kind.SAVED_MODEL: f"convert it with `python -m tf2onnx.convert --saved-model DIR --output model.onnx` {_LOG_ONNX}",
    Kind.CATBOOST: _BY_FLAVOUR["catboost"],
    Kind.SAFETENSORS: f"it holds weights without the model they are for: export the whole model to ONNX {_LOG_ONNX}",
}
_RUNS_CODE = (Kind.PICKLE, Kind.TORCH)
# Flavours that a deployment makes a servable form of, in a sandbox.
CONVERTED: Final = frozenset({"sklearn", "lightgbm", "xgboost", "pytorch", "tensorflow", "keras"})


@value
class Servable:
    """`runtime` (onnx, openvino, litert, lightgbm, xgboost) and `file` are empty where `ok` is false. A version that can be
    served may have reasons too: they are warnings then."""

    ok: bool
    runtime: str = ""
    file: str = ""
    reasons: tuple[str, ...] = ()


def check(files: Sequence[VersionFile], description: ModelDescription | None, read: Read) -> Servable:
    """Never raises for what the files hold; `read`'s own errors pass."""
    if not files:
        return Servable(ok=False, reasons=(NOT_HERE,))
    sizes = {file.name: file.size for file in files}
    flavours = description.flavours if description else ()
    looked_at = _named(flavours, sizes) if flavours else _possible(sizes)
    kinds = {name: kind_of(Content(read, name, sizes[name])) for name in looked_at[:MOST_FILES]}
    unserved = [name for name in kinds if kinds[name] not in (*RUNTIMES, Kind.OTHER)]
    models = [name for kind in RUNTIMES for name in sorted(kinds) if kinds[name] is kind]
    if not models or _is_own_code(flavours):
        reasons = [_why_not(name, kinds[name], flavours) for name in unserved] or [_nothing(flavours, kinds, len(files))]
        return Servable(ok=False, reasons=tuple(reasons[:NAMED]))
    model = models[0]
    rivals = [name for name in models if kinds[name] is kinds[model]]
    faults = (
        [_ambiguous(rivals, kinds[model])]
        if len(rivals) > 1
        else _faults(Content(read, model, sizes[model]), kinds[model], sizes)
    )
    if faults:
        return Servable(ok=False, reasons=tuple(faults))
    pickles = [_why_not(name, kinds[name], flavours) for name in unserved if kinds[name] in _RUNS_CODE]
    return Servable(ok=True, runtime=RUNTIMES[kinds[model]], file=model, reasons=(*_warnings(description), *pickles[:NAMED]))


def is_convertible(*, servable: bool, flavours: Collection[str], files: int) -> bool:
    """Whether a deployment will try to convert it; how that goes is known only then."""
    return not servable and files > 0 and not CONVERTED.isdisjoint(flavours)


def _named(flavours: Sequence[Flavour], sizes: Mapping[str, int]) -> list[str]:
    """The files that the MLmodel file names, also those in folders that it names: they alone are the model."""
    wanted = {name for flavour in flavours for name in flavour.files}
    return _largest_first((name for name in sizes if any(name == one or name.startswith(one + "/") for one in wanted)), sizes)


def _is_own_code(flavours: Sequence[Flavour]) -> bool:
    """A model that only Python can load is whatever that code makes of its files, also where one of them could be served."""
    return bool(flavours) and all(flavour.name == PYFUNC for flavour in flavours)


def _possible(sizes: Mapping[str, int]) -> list[str]:
    return _largest_first((name for name in sizes if name not in _COMPANIONS), sizes)


def _largest_first(names: Iterable[str], sizes: Mapping[str, int]) -> list[str]:
    """Where there are too many to look into, the model is hardly among the small."""
    return sorted(names, key=lambda name: (-sizes[name], name))


def _why_not(name: str, kind: Kind, flavours: Sequence[Flavour]) -> str:
    says = f"{name!r} is {kind}"
    if kind in _RUNS_CODE:
        says += ", which can run any code when it is loaded and is therefore never loaded here"
    ways = [_BY_FLAVOUR[one.name] for one in flavours if one.name in _BY_FLAVOUR and kind is not Kind.SAFETENSORS]
    way = ways[0] if ways else _BY_KIND.get(kind, f"export the model to ONNX {_LOG_ONNX}")
    return f"{says}: {way}."


def _nothing(flavours: Sequence[Flavour], looked_at: Collection[str], count: int) -> str:
    served = "ONNX, OpenVINO IR, LiteRT, LightGBM's text and XGBoost's JSON or UBJ are served"
    if _is_own_code(flavours):
        return f"Its only flavour is {PYFUNC}: code of its own, which is not run here. Export the model to ONNX {_LOG_ONNX}."
    if looked_at and flavours:
        return f"The MLmodel file names {_list(looked_at)}, of a kind that is not served: {served}."
    if wanted := [name for flavour in flavours for name in flavour.files]:
        return f"The MLmodel file names {_list(dict.fromkeys(wanted))}, and the version has no such file: register it complete."
    if flavours:
        return f"The MLmodel file does not say which file is the model: {served}."
    return f"None of its {count} files is a model that can be served: {served}."


def _ambiguous(rivals: Sequence[str], kind: Kind) -> str:
    return f"It holds {len(rivals)} files that are each {kind} ({_list(rivals)}): register each as a version of its own."


def _warnings(description: ModelDescription | None) -> list[str]:
    if description is not None and description.signature is not None and description.signature.inputs:
        return []
    return ["It has no input signature, so requests cannot be checked before they reach it: log the model with `signature=`."]


# What is wrong with a file of a format that is served


def _faults(content: Content, kind: Kind, sizes: Mapping[str, int]) -> list[str]:
    try:
        if kind is Kind.ONNX:
            return _onnx_faults(content, sizes)
        if kind is Kind.OPENVINO:
            return _openvino_faults(content, sizes)
        if kind is Kind.LITERT:
            return _unknown_operators(content.name, litert.custom_operators(content))
    except Malformed as error:
        return [f"{content.name!r} looks like {kind} and cannot be read as one: {error}."]
    return []


def _onnx_faults(content: Content, sizes: Mapping[str, int]) -> list[str]:
    model = read_onnx(content)
    folder = posixpath.dirname(content.name)
    faults = _unknown_operators(content.name, model.custom)
    if not model.inputs or not model.outputs:
        faults.append(f"{content.name!r} has no {'outputs' if model.inputs else 'inputs'}, so nothing can be asked of it.")
    for location in model.external:
        name = posixpath.normpath(posixpath.join(folder, location))
        if not location or location.startswith("/") or name.startswith("../"):
            faults.append(f"{content.name!r} wants weights from {location!r}, which is outside of the model's folder.")
        elif name not in sizes:
            faults.append(f"{content.name!r} keeps weights in {location!r}, which the version has not: register it complete.")
    return faults[:NAMED]


def _openvino_faults(content: Content, sizes: Mapping[str, int]) -> list[str]:
    weights = content.name.removesuffix(".xml") + ".bin"
    model = openvino.read_ir(content)
    faults = _unknown_operators(content.name, model.custom)
    if weights not in sizes:
        faults.append(f"{content.name!r} is an OpenVINO IR without its weights: {weights!r} is missing.")
    if model.version < openvino.OLDEST:
        faults.append(
            f"{content.name!r} is an IR of version {model.version}; convert the model anew, to {openvino.OLDEST} or later."
        )
    return faults


def _unknown_operators(name: str, operators: Sequence[str]) -> list[str]:
    if not operators:
        return []
    return [f"{name!r} needs operators that no runtime here has: {_list(operators)}. Export it with standard operators alone."]


def _list(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    more = len(listed) - NAMED
    return ", ".join(listed[:NAMED]) + (f" and {more} more" if more > 0 else "")
