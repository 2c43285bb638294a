"""Models for LiteRT, from ONNX and without TensorFlow: as they are, or with the weights of their layers in eight bits."""

import re
from collections.abc import Iterable
from typing import Any, Final

from falaj.base.errors import PermanentError
from falaj.optimisation.making.litert_folding import ready
from falaj.optimisation.making.litert_graphs import Conversion, Tensor
from falaj.optimisation.making.litert_operators import OPERATORS
from falaj.optimisation.making.litert_writing import Writer
from falaj.optimisation.making.onnx_graphs import check_operators, input_names, read_graph
from falaj.optimisation.making.parity import answering_alike, with_same_face
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import CannotBeMade, Made, Material, Sample

FILE: Final = "model.tflite"
_FAILED: Final = re.compile(r"Node number (\d+)")


def as_litert(made: Made, argument: str, material: Material) -> Made:
    return answering_alike(made, _written(made, material, rounds=False), material)


def int8(made: Made, argument: str, material: Material) -> Made:
    """Weights in eight bits, with a scale for each channel; what flows between layers is rounded row by row as it comes."""
    return _written(made, material, rounds=True)


def _written(made: Made, material: Material, *, rounds: bool) -> Made:
    model = read_graph(made)
    check_operators(model)
    names = input_names(model.graph), [one.name for one in model.graph.output]
    found = ready(model, OPERATORS)
    writer = Writer(rows=found.rows, rounds=rounds)
    into = Conversion(found.model, found.facts, found.origins, writer, rows=found.rows)
    content = _converted(into, found.model, *names)
    if rounds and not writer.rounded:
        raise CannotBeMade("the model has no layer that would be smaller in eight bits")
    note = f"LiteRT's own form{f', weights of {writer.rounded} layers in INT8, per channel' if rounds else ''}"
    # How the ONNX form was to be run says nothing about this one.
    form = Made(runtime="litert", file=FILE, files={FILE: content}, notes=(*made.notes, note))
    _check_answers(form, material.calibration.part(0, 1), into)
    return with_same_face(made, form)


def _converted(into: Conversion, model: Any, inputs: Iterable[str], outputs: Iterable[str]) -> bytes:
    given = {}
    for name in inputs:
        shape, dtype = into.shape(name), into.dtype(name)
        given[name] = into.writer.tensor(name, shape, dtype)
        into.give(name, Tensor(place=given[name], shape=shape, dtype=dtype))
    for node in model.graph.node:
        if node.op_type == "Constant" or into.is_taken(node):
            continue
        if not all(into.knows(name) for name in node.output if name):
            raise into.refused(node, "how large its answer is, is found only while it runs")
        OPERATORS[node.op_type](into, node)
        into.made_by += [node] * (len(into.writer.steps) - len(into.made_by))
    made: dict[str, int] = {}
    for name in outputs:
        found = into.plain(name)
        if found.place in (*given.values(), *made.values()):  # LiteRT knows a tensor by one name
            found = into.reshaped(found, found.shape)
        made[name] = found.place
    return into.writer.content(given, made)


def _check_answers(form: Made, row: Sample, into: Conversion) -> None:
    """LiteRT says which step it cannot do by its number; people know it by the line that made it."""
    try:
        answers(form, row)
    except PermanentError as error:
        numbers = [int(one) for one in _FAILED.findall(str(error))]
        nodes = [into.made_by[number] for number in numbers if number < len(into.made_by)]
        raise CannotBeMade(f"{error}; by {into.told(nodes)}" if nodes else str(error)) from error
