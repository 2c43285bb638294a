"""Programs of `torch.export`, read without torch and without trust.

`torch.export.load` unpickles what the file holds, evaluates its expressions and calls whatever function of torch it names.
Here nothing of the kind happens: the graph is JSON, the weights are bytes, and a program that needs more is refused.
"""

import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from typing import Any, Final, Literal

from falaj.base.values import value
from falaj.runtimes.engine import TensorSpec
from falaj.runtimes.errors import NotLoadable

BFLOAT16: Final = 13  # by its number in the program's schema
_SCHEMA: Final = 8
_DATATYPES: Final = {
    1: "UINT8",
    2: "INT8",
    3: "INT16",
    4: "INT32",
    5: "INT64",
    6: "FP16",
    7: "FP32",
    8: "FP64",
    12: "BOOL",
    28: "UINT16",
    34: "UINT32",
    35: "UINT64",
}
_MODEL: Final = "models/model.json"
_WEIGHTS: Final = "data/weights/"
_CONSTANTS: Final = "data/constants/"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_NUMBERS: Final = frozenset(["as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools", "as_strings"])
_WORDS: Final = {"as_scalar_type": "dtype", "as_memory_format": "memory_format", "as_layout": "layout", "as_device": "device"}
_LISTS: Final = frozenset(["as_tensors", "as_optional_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools"])
# Steps that only check what was so when the program was exported: the device, for one, may be another now.
_CHECKS: Final = ("_assert", "sym_constrain_range")
_ARITHMETIC: Final = ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg")
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_")
_OPERATORS: Final = frozenset(
    [
        *(f"_operator.{name}" for name in (*_ARITHMETIC, *_COMPARISONS)),
        *(f"torch.sym_{name}" for name in ("max", "min", "not", "int", "float")),
        *("math.ceil", "math.floor", "math.trunc"),
    ]
)
# They read files, or hand out memory that somebody else wrote, or bend a tensor over memory that is not its own.
_REFUSED: Final = re.compile(
    r"from_file|.*empty.*|set_.*|resize.*|data|copy_sparse.*|record_stream|.*(pin_memory|_cuda|cudnn).*"
)
# Of aten's private operations, those that exported programs have.
_PRIVATE: Final = frozenset(
    [
        *("_to_copy", "_softmax", "_log_softmax", "_unsafe_view", "_weight_norm"),
        *("_native_batch_norm_legit_no_training", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
        *("_pdist_forward", "_cdist_forward", "_scaled_dot_product_flash_attention_for_cpu"),
    ]
)


@value
class Ref:
    """What an earlier step made, an input, or a weight."""

    name: str


@value
class Word:
    """A constant of torch's: its kind, and the number or name that the file has for it."""

    kind: str
    number: int


@value
class Step:
    """`made` names what comes out; where `several`, the operation gives a list of them. `axes` is how many the first of them
    has, 0 where the file does not say."""

    target: str
    given: tuple[Any, ...]
    named: Mapping[str, Any]
    made: tuple[str, ...]
    several: bool
    axes: int = 0


@value
class Tensor:
    """An input or an output as the program declares it; -1 where the length may differ, and `most` of its rows."""

    name: str
    dtype: int
    shape: tuple[int, ...]
    most: int = 0


@value
class Weight:
    dtype: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    content: bytes


@value
class Program:
    inputs: tuple[Tensor, ...]
    weights: Mapping[str, Weight]
    steps: tuple[Step, ...]
    outputs: tuple[Tensor, ...]
    made: tuple[str, ...]  # what the outputs are called among the steps

    def lookups(self) -> dict[str, int]:
        """How many entries the tables have that inputs are looked up in, by the input's name. On a GPU, an index beyond the
        table's end breaks the device for the whole process."""
        names, found = {tensor.name for tensor in self.inputs}, dict[str, int]()
        for step in self.steps:
            if step.target.startswith("torch.ops.aten.embedding.") and len(step.given) > 1:
                table, index = step.given[:2]
                if isinstance(index, Ref) and index.name in names and isinstance(table, Ref) and table.name in self.weights:
                    entries = self.weights[table.name].shape[0]
                    found[index.name] = min(entries, found.get(index.name, entries))
        return found


def spec_of(tensor: Tensor, side: Literal["input", "output"]) -> TensorSpec:
    """As the protocol says it. numpy has no bfloat16: it leaves as FP32."""
    datatype = "FP32" if tensor.dtype == BFLOAT16 and side == "output" else _DATATYPES.get(tensor.dtype)
    if datatype is None:
        raise NotLoadable(f"{side} {tensor.name} is of a type that the protocol has no word for; cast it in the model")
    return TensorSpec(name=tensor.name, datatype=datatype, shape=tensor.shape)


def read_program(content: bytes) -> Program:
    """Raises `NotLoadable` for what is not such a program, or one that could only be loaded by trusting it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(one.compress_size for one in archive.infolist()) > len(content):  # several entries name the same bytes
                raise NotLoadable("the exported program's files are larger than itself: save it by torch.export.save")
            files = {name.partition("/")[2]: name for name in archive.namelist()}
            model = _json(archive, files, _MODEL)
            if model["schema_version"]["major"] != _SCHEMA:
                raise NotLoadable(f"the program is of schema {model['schema_version']['major']}, {_SCHEMA} is understood")
            stored = _stored(archive, files, _WEIGHTS, "model_weights_config.json")
            stored |= _stored(archive, files, _CONSTANTS, "model_constants_config.json")
        return _program(model, stored)
    except NotLoadable:
        raise
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, IndexError, EOFError) as error:
        raise NotLoadable(f"this is not a program saved by torch.export.save: {error!r}"[:300]) from error
    except (RecursionError, NotImplementedError, OverflowError, zipfile.LargeZipFile) as error:
        raise NotLoadable(f"the exported program cannot be read: {error!r}"[:300]) from error


def _json(archive: zipfile.ZipFile, files: Mapping[str, str], name: str) -> Any:
    if name not in files:
        raise NotLoadable(f"this is not a program saved by torch.export.save: it has no {name}")
    return json.loads(_bytes(archive, files[name]))


def _bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:  # torch stores; a bomb does not
        raise NotLoadable(f"{name} is compressed: save the program by torch.export.save")
    return archive.read(name)


def _stored(archive: zipfile.ZipFile, files: Mapping[str, str], folder: str, config: str) -> dict[str, Weight]:
    contents: dict[str, bytes] = {}
    found: dict[str, Weight] = {}
    for name, entry in _json(archive, files, folder + config)["config"].items():
        path = entry["path_name"]
        if entry["use_pickle"] or not path.startswith(("weight_", "tensor_")):
            raise NotLoadable(f"{name} is stored as a pickle, which could do anything: export plain tensors only")
        if path not in contents:
            contents[path] = _bytes(archive, files[folder + path])
        meta = entry["tensor_meta"]
        shape, strides = _lengths(meta["sizes"]), _lengths(meta["strides"])
        if -1 in shape or -1 in strides or len(shape) != len(strides):
            raise NotLoadable(f"{name} has no definite shape")
        offset = int(meta["storage_offset"]["as_int"])
        found[name] = Weight(dtype=int(meta["dtype"]), shape=shape, strides=strides, offset=offset, content=contents[path])
    return found


def _program(model: Any, stored: Mapping[str, Weight]) -> Program:
    module = model["graph_module"]
    graph, signature = module["graph"], module["signature"]
    kinds = [_only(spec) for spec in signature["input_specs"]]
    weights: dict[str, Weight] = {}
    inputs: list[Tensor] = []
    for kind, spec in kinds:
        if kind in ("parameter", "buffer", "tensor_constant"):
            weights[_name(spec["arg"]["name"])] = stored[spec[f"{kind}_name"]]
        elif kind == "user_input" and "as_tensor" in spec["arg"]:
            inputs.append(_tensor(spec["arg"]["as_tensor"]["name"], graph, model["range_constraints"]))
        else:
            raise NotLoadable(f"the program takes a {kind} that is no tensor: export it with tensors as inputs only")
    made = []
    for spec in signature["output_specs"]:
        kind, content = _only(spec)
        if kind != "user_output" or "as_tensor" not in content["arg"]:
            raise NotLoadable(
                f"the program has a {kind} that is no tensor, or changes its own weights: it would not be the same twice"
            )
        made.append(_name(content["arg"]["as_tensor"]["name"]))
    names = _output_names(module["module_call_graph"], len(made))
    outputs = [_tensor(one, graph, {}) for one in made]
    return Program(
        inputs=tuple(inputs),
        weights=weights,
        steps=tuple(_step(node, graph["tensor_values"]) for node in graph["nodes"] if not _is_check(node["target"])),
        outputs=tuple(Tensor(name=name, dtype=one.dtype, shape=one.shape) for name, one in zip(names, outputs, strict=True)),
        made=tuple(made),
    )


def _output_names(calls: Any, count: int) -> list[str]:
    """The keys of the dictionary that the model gives, or numbers."""
    spec = json.loads(calls[0]["signature"]["out_spec"])[1] if calls and calls[0].get("signature") else {}
    if spec.get("type") == "builtins.dict" and all(not child["children_spec"] for child in spec["children_spec"]):
        keys = json.loads(spec["context"])
        if len(keys) == count and all(isinstance(key, str) for key in keys) and len(set(keys)) == count:
            return list(keys)
    return ["output"] if count == 1 else [f"output{number}" for number in range(count)]


def _tensor(name: str, graph: Any, ranges: Any) -> Tensor:
    meta = graph["tensor_values"][name]
    shape = _lengths(meta["sizes"])
    most = 0
    if shape and shape[0] == -1:
        symbols = re.findall(r"\b[su]\d+\b", meta["sizes"][0]["as_expr"]["expr_str"])
        limits = [ranges[symbol]["max_val"] for symbol in symbols if symbol in ranges and ranges[symbol]["max_val"]]
        most = min(limits, default=0)
    return Tensor(name=_name(name), dtype=int(meta["dtype"]), shape=shape, most=int(most))


def _lengths(sizes: Any) -> tuple[int, ...]:
    return tuple(int(size["as_int"]) if "as_int" in size else -1 for size in sizes)


def _is_check(target: str) -> bool:
    return target.startswith("torch.ops.aten.") and target.split(".")[3].startswith(_CHECKS)


def _step(node: Any, tensors: Any) -> Step:
    target = node["target"]
    _allow(target)
    given, named = [], {}
    for argument in node["inputs"]:
        if argument.get("kind") == 2:
            named[_name(argument["name"])] = _argument(argument["arg"])
        else:
            given.append(_argument(argument["arg"]))
    several, made = len(node["outputs"]) > 1, []
    for output in node["outputs"]:
        kind, content = _only(output)
        if kind == "as_tensors":
            several = True
            made.extend([one["name"] for one in content])
        else:
            made.append(content["name"] if "name" in content else content["as_name"])
    axes = len(tensors[made[0]]["sizes"]) if made and made[0] in tensors else 0
    names = tuple(_name(one) for one in made)
    return Step(target=target, given=tuple(given), named=named, made=names, several=several, axes=axes)


def _allow(target: str) -> None:
    if target in _OPERATORS:
        return
    parts = target.split(".")
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "aten"] and all(_NAME.fullmatch(part) for part in parts):
        name = parts[3]
        if name in _PRIVATE or (not name.startswith("_") and not _REFUSED.fullmatch(name)):
            return
    raise NotLoadable(f"the program calls {target[:200]!r}, which is not allowed; try exporting it after run_decompositions()")


def _argument(argument: Any) -> Any:
    kind, content = _only(argument)
    if kind in _NUMBERS:
        return [_number(one) for one in content] if isinstance(content, list) else _number(content)
    if kind in _WORDS:
        return Word(kind=_WORDS[kind], number=0 if kind == "as_device" else int(content))
    if kind == "as_none":
        return None
    if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
        return _reference(content)
    if kind in _LISTS:
        return [_reference(one) for one in content]
    raise NotLoadable(f"the program uses {kind[:40]!r}, which is not supported; try exporting it after run_decompositions()")


def _only(union: Any) -> tuple[str, Any]:
    """A union is an object with one field, whose name says which kind it is."""
    if not isinstance(union, dict) or len(union) != 1:
        raise NotLoadable(f"{union!r} stands where one of several kinds was expected"[:200])
    ((kind, content),) = union.items()
    return kind, content


def _reference(content: Any) -> Any:
    for key in ("as_int", "as_float", "as_bool"):
        if key in content:
            return _number(content[key])
    if "as_none" in content:
        return None
    name = content.get("name") or content.get("as_name") or content["as_tensor"]["name"]
    return Ref(name=_name(name))


def _number(content: Any) -> Any:
    """JSON has no infinity: the file spells it."""
    spelled = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
    if isinstance(content, str):
        return spelled.get(content, content)
    if isinstance(content, bool | int | float):
        return content
    raise NotLoadable(f"{content!r} stands where a number was expected"[:200])


def _name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NotLoadable(f"{name!r} is not a name"[:200])
    return name
