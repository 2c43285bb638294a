"""The part of a graph that only names what another output says: scikit-learn's models give a label beside the shares. It is put
aside while the rest learns, and comes back as it was; torch need not know its operators then, nor texts."""

from collections.abc import Iterable
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.shrinking.graphs import library

# What names are made by. They mean the same in every opset, and the rest may come back in another.
_NAMING: Final = frozenset(
    ["ArgMax", "ArrayFeatureExtractor", "Cast", "Constant", "Gather", "Identity", "LabelEncoder", "Reshape"]
)
_OWN: Final = "falaj_label_"  # what its tensors are called, so that they are nobody else's


@value
class Parted:
    """`body` is ONNX that gives the one output alone; `whole` is what it was taken from, and `nodes` are those left out."""

    body: bytes
    whole: Any
    output: str
    nodes: tuple[Any, ...]

    def joined(self, body: bytes) -> bytes:
        """Another body with the outputs of the whole, in its order. Raises `Invalid` where the two share a name."""
        onnx = library()
        model = onnx.load_from_string(body)
        names = {self.output: self.output} | {one.name: one.name for one in self.whole.graph.output}
        given = {name for node in self.nodes for name in (*node.input, *node.output) if name}
        names |= {name: _OWN + name for name in given if name not in names}
        if taken := _names(model) & {new for old, new in names.items() if old != self.output}:
            raise Invalid(f"{', '.join(sorted(taken))} is the name of an output and of something within what was made")
        for node in self.nodes:
            added = model.graph.node.add()
            added.CopyFrom(node)
            for place, name in enumerate(node.input):
                added.input[place] = names.get(name, name)
            for place, name in enumerate(node.output):
                added.output[place] = names.get(name, name)
        for one in self.whole.graph.initializer:
            if one.name in given:
                kept = model.graph.initializer.add()
                kept.CopyFrom(one)
                kept.name = names[one.name]
        del model.graph.output[:]
        model.graph.output.extend(self.whole.graph.output)
        known = {one.domain for one in model.opset_import}
        model.opset_import.extend(one for one in self.whole.opset_import if one.domain not in known)
        return bytes(model.SerializeToString())


def parted(content: bytes, output: int) -> Parted | None:
    """Without the nodes that make the other outputs of that one; None where it has no others, or they are made of something
    else."""
    model = library().load_from_string(content)
    graph = model.graph
    wanted, others = graph.output[output].name, [one.name for place, one in enumerate(graph.output) if place != output]
    behind = _behind(graph, wanted, others)
    if not others or behind is None:
        return None
    body = library().ModelProto()
    body.CopyFrom(model)
    rest = [node for place, node in enumerate(graph.node) if place not in behind]
    used = {name for node in rest for name in node.input}
    weights = [one for one in graph.initializer if one.name in used]
    for listed, kept in (
        (body.graph.node, rest),
        (body.graph.initializer, weights),
        (body.graph.output, [graph.output[output]]),
    ):
        del listed[:]
        listed.extend(kept)
    del body.graph.value_info[:]
    return Parted(
        body=bytes(body.SerializeToString()),
        whole=model,
        output=wanted,
        nodes=tuple(node for place, node in enumerate(graph.node) if place in behind),
    )


def alike(student: bytes, teacher: bytes) -> bytes:
    """The student without outputs that only name what another says, where the teacher was parted from its own."""
    wanted = [one.name for one in library().load_from_string(teacher).graph.output]
    given = [one.name for one in library().load_from_string(student).graph.output] if student else []
    if len(wanted) > 1 or wanted[0] not in given:
        return student
    found = parted(student, given.index(wanted[0]))
    return student if found is None else found.body


def _behind(graph: Any, wanted: str, others: Iterable[str]) -> set[int] | None:
    """The nodes that make the others of what is wanted and of constants; None where they need more, or do more than name."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output}
    constant = {one.name for one in graph.initializer} | {"", wanted}
    found, waiting = set[int](), list(others)
    while waiting:
        name = waiting.pop()
        if name in constant:
            continue
        place = makers.get(name)
        if place is None or graph.node[place].op_type not in _NAMING:
            return None
        if place not in found:
            found.add(place)
            waiting.extend(graph.node[place].input)
    needed = {name for place, node in enumerate(graph.node) if place not in found for name in node.input}
    made = {name for place in found for name in graph.node[place].output}
    return None if needed & made else found


def _names(model: Any) -> set[str]:
    graph = model.graph
    made = {name for node in graph.node for name in (*node.input, *node.output)}
    return made | {one.name for one in (*graph.initializer, *graph.input)}
