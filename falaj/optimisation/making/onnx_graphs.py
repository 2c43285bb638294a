"""ONNX models as graphs in memory: read with what lies in files beside, written in one, and who made a node told.

What is done to a graph is in the files of the libraries that do it: `folding`, `ort_quantising`, `onnx_ensembles`.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, inliner, numpy_helper

from falaj.optimisation.making.values import CannotBeMade, Made
from falaj.runtimes.onnx_files import external_files

FILE: Final = "model.onnx"
STANDARD: Final = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_STACK: Final = "pkg.torch.onnx.stack_trace"
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def read_graph(made: Made) -> Any:
    """The `ModelProto`, all of its tensors in it, and every node with a name of its own."""
    if made.runtime != "onnx":
        raise CannotBeMade(f"this step takes ONNX models, and was given one for {made.runtime}")
    try:
        model = onnx.load_model_from_string(made.content)
    except DecodeError as error:
        raise CannotBeMade(f"{made.file} is no ONNX model: {error}") from error
    if model.functions:  # exporters of torch write some operators as functions of their own
        model = inliner.inline_local_functions(model, convert_version=True)
    beside = external_files(made.file, made.files)
    for tensor in _tensors(model.graph) if beside else ():
        _bring_in(tensor, beside)
    _name_nodes(model.graph)
    return model


def written(made: Made, model: Any, *notes: str) -> Made:
    """The model in the place of the one before, in one file, without what exporters wrote on the margins."""
    for node in all_nodes(model.graph):
        del node.metadata_props[:]
        node.doc_string = ""
    del model.graph.value_info[:]
    try:
        content = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise CannotBeMade(f"the model does not fit in one file of 2 GiB: {error}") from error
    return Made(runtime="onnx", file=FILE, files={FILE: content}, settings=made.settings, notes=(*made.notes, *notes))


class AsFile:
    """The model as a file, for libraries that take paths alone: `with AsFile(model) as (path, folder)`."""

    def __init__(self, model: Any) -> None:
        self._model, self._folder = model, TemporaryDirectory(prefix="falaj-making-")

    def __enter__(self) -> tuple[str, Path]:
        folder = Path(self._folder.name)
        (folder / FILE).write_bytes(self._model.SerializeToString())
        return str(folder / FILE), folder

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def check_operators(model: Any) -> None:
    """Raises `CannotBeMade` for operators of somebody's own: only what everybody's engine knows can be made over."""
    foreign = [node for node in all_nodes(model.graph) if node.domain not in STANDARD]
    if foreign:
        raise CannotBeMade(f"the model has operators of its own: {told(foreign)}")


def told(nodes: Iterable[Any], most: int = 5) -> str:
    """Operators with the node's name and, where the exporter left it, the line of source that made it."""
    listed = list(nodes)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return "; ".join(_told(node) for node in listed[:most]) + more


def _told(node: Any) -> str:
    operator = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    source = source_of(node)
    return f"{operator} (node {node.name or '?'}{', made by ' + source if source else ''})"


def source_of(node: Any) -> str:
    """The innermost line of the model's own code; libraries' lines only where there is none of it."""
    trace = next((one.value for one in node.metadata_props if one.key == _STACK), "")
    frames = _FRAME.findall(trace)
    own = [frame for frame in frames if "site-packages" not in frame[0]] or frames
    return f"{own[-1][0]} line {own[-1][1]} in {own[-1][2]}" if own else ""


def all_nodes(graph: Any) -> Iterator[Any]:
    """Those of graphs within nodes too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from all_nodes(inner)


def constants(graph: Any) -> dict[str, Any]:
    """The graph's own tensors, by name, as they are in the file."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            found[node.output[0]] = node.attribute[0].t
    return found


def array_of(tensor: Any) -> "np.ndarray[Any, np.dtype[Any]]":
    return np.asarray(numpy_helper.to_array(tensor))


def input_names(graph: Any) -> list[str]:
    """Of what is fed: older files list the weights among the inputs too."""
    weights = {tensor.name for tensor in graph.initializer}
    return [one.name for one in graph.input if one.name not in weights]


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from ([attribute.t] if attribute.HasField("t") else [])
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner)


def _bring_in(tensor: Any, beside: dict[str, bytes]) -> None:
    if tensor.data_location != TensorProto.EXTERNAL:
        return
    told_of = {entry.key: entry.value for entry in tensor.external_data}
    content, start = beside[told_of["location"]], int(told_of.get("offset", 0))
    length = int(told_of.get("length", len(content) - start))
    tensor.raw_data = content[start : start + length]
    del tensor.external_data[:]
    tensor.data_location = TensorProto.DEFAULT


def _name_nodes(graph: Any) -> None:
    taken: set[str] = set()
    for number, node in enumerate(graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{number}"
        taken.add(node.name)
