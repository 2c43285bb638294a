"""Models for OpenVINO: from ONNX to its intermediate representation, as it is, with weights in half, to be run in bfloat16."""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import openvino

from falaj.optimisation.making.folding import pool_means
from falaj.optimisation.making.onnx_graphs import check_operators, read_graph, told
from falaj.optimisation.making.parity import answering_alike, with_same_face
from falaj.optimisation.making.values import CannotBeMade, Made, Material
from falaj.runtimes.hosts import this_host

XML: Final = "model.xml"
WEIGHTS: Final = "model.bin"
_KEPT: Final = ("threads", "needs")
_UNSUPPORTED: Final = re.compile(
    r"(?:not supported|unsupported|No conversion|not registered)[^:]*:?\s*([\w.,\s]+)", re.IGNORECASE
)


def as_openvino(made: Made, argument: str, material: Material) -> Made:
    return answering_alike(made, from_model(made, read_model(made), "OpenVINO's own form"), material)


def half(made: Made, argument: str, material: Material) -> Made:
    """Weights in float16, which halves the file; arithmetic stays in float32."""
    return with_same_face(made, from_model(made, read_model(made), "weights in float16", halved=True))


def bf16(made: Made, argument: str, material: Material) -> Made:
    """To be run in bfloat16, where the processor multiplies in it."""
    host = this_host()
    if not host.multiplies_bf16:
        raise CannotBeMade(f"this processor does not multiply in bfloat16: {host.cpu}")
    form = from_model(made, read_model(made), "arithmetic in bfloat16", precision="bf16")
    return with_same_face(made, form)


def read_model(made: Made) -> Any:
    """An `openvino.Model`, from its own form or from ONNX."""
    core = openvino.Core()
    if made.runtime == "openvino":
        beside = Path(made.file).with_suffix(".bin").name
        return core.read_model(made.content, made.files.get(beside, b""))
    graph = read_graph(made)
    check_operators(graph)
    pool_means(graph)
    try:
        model = core.read_model(graph.SerializeToString())
    except (RuntimeError, ValueError) as error:
        raise CannotBeMade(f"OpenVINO cannot take the model: {_blamed(graph, str(error))}") from error
    _name(model.inputs, [one.name for one in graph.graph.input])
    _name(model.outputs, [one.name for one in graph.graph.output])
    return model


def from_model(made: Made, model: Any, *notes: str, halved: bool = False, precision: str = "") -> Made:
    """As files, in the place of the one before."""
    with TemporaryDirectory(prefix="falaj-making-") as folder:
        openvino.save_model(model, Path(folder) / XML, compress_to_fp16=halved)
        files = {name: (Path(folder) / name).read_bytes() for name in (XML, WEIGHTS)}
    # How the ONNX form was to be run says nothing about this one, but for the threads and what it needs of its host.
    kept = {word: given for word, given in made.settings.items() if word in _KEPT or made.runtime == "openvino"}
    settings = {**kept, **({"precision": precision} if precision else {})}
    return Made(runtime="openvino", file=XML, files=files, settings=settings, notes=(*made.notes, *notes))


def _name(ports: Sequence[Any], names: Sequence[str]) -> None:
    """A tensor may have come to have several names, of which any may be shown: the one that the model was asked by stays."""
    for port in ports:
        own = [name for name in names if name in port.get_names()]
        if own:
            port.get_tensor().set_names({own[0]})


def _blamed(graph: Any, text: str) -> str:
    """OpenVINO's reason, and the nodes of the operators it names."""
    words = set(re.findall(r"[A-Za-z]\w+", " ".join(_UNSUPPORTED.findall(text)) or text))
    nodes = [node for node in graph.graph.node if node.op_type in words]
    reason = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:300]
    return f"{reason}; by {told(nodes)}" if nodes else reason
