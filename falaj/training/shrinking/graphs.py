"""An ONNX model as a torch module that can be trained: its weights are parameters, its operators functions of torch.

What comes out after training is the same graph with other weights: nothing is exported anew, and nobody's code is needed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.shrinking.operators import MADE_HERE, NUMBERS, OPERATORS, Node, Run
from falaj.training.shrinking.pruning import Weighted
from falaj.training.shrinking.shapes import MOST, SHAPES, of_lengths

Array = npt.NDArray[Any]
_FLOATS: Final = (torch.float32, torch.float64, torch.float16)
_LAYERS: Final = frozenset(["Conv", "Gemm", "MatMul"])
_INTEGERS: Final = (6, 7)  # ONNX's numbers for 32 and 64 bits
_LINES: Final = ("pkg.torch.onnx.stack_trace", "pkg.onnxscript.source", "source")


class NotTrainable(Invalid):
    """The graph has an operator that is not known here; the message names it, its node, and the line that made it."""


@value
class _Step:
    """A node, how it is computed, how of shapes alone, and which tensors nobody needs after it."""

    node: Node
    kind: str
    named: str
    run: Run | None
    over: tuple[str, ...] = ()


class Graph(nn.Module):
    """Takes one tensor for each input, in order, and gives a tuple with one for each output.

    Float weights are parameters; whatever else is constant stays so, what normalisations have counted among it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        onnx = library()
        self._model = model
        graph = model.graph
        opsets = {one.domain: one.version for one in model.opset_import}
        self.opset = opsets.get("", opsets.get("ai.onnx", 0))
        weights = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
        constants = {node.output[0]: _constant(onnx, node) for node in graph.node if node.op_type == "Constant"}
        self.input_names = [one.name for one in graph.input if one.name not in weights]
        self.output_names = [one.name for one in graph.output]
        self._known = {name: one for name, one in (weights | constants).items() if _may_be_numbers(one)}
        self._places = {name: f"w{number}" for number, name in enumerate(weights | constants)}
        self._hold(weights, constants)
        self._steps = self._read([node for node in graph.node if node.op_type != "Constant"], onnx)

    @classmethod
    def read(cls, content: bytes) -> "Graph":
        """Raises `NotTrainable`."""
        return cls(library().load_from_string(content))

    def written(self) -> bytes:
        """The same ONNX with the weights of now."""
        onnx = library()
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for one in model.graph.initializer:
            weight = self.weight(one.name)
            if isinstance(weight, nn.Parameter):
                one.CopyFrom(onnx.numpy_helper.from_array(weight.detach().cpu().numpy(), one.name))
        return bytes(model.SerializeToString())

    def place(self, name: str) -> str:
        """What torch calls a weight of the graph."""
        place = self._places[name]
        return f"{place}.weight" if isinstance(getattr(self, place), Weighted) else place

    def weight(self, name: str) -> Any:
        held = getattr(self, self._places[name])
        return held.weight if isinstance(held, Weighted) else held

    def looked_up(self, name: str) -> int:
        """How many vectors there are for the numbers of an input, where they are looked up; 0 where they are not."""
        for node in self._model.graph.node:
            if node.op_type == "Gather" and len(node.input) > 1 and node.input[1] == name and node.input[0] in self._places:
                return int(self.weight(node.input[0]).shape[0])
        return 0

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        values = self.values(inputs)
        return tuple(values[name] for name in self.output_names)

    def values(self, inputs: Sequence[Any], wanted: Collection[str] = ()) -> dict[str, Any]:
        """The outputs and what is `wanted`, by their names; whatever else is computed is given up when nobody needs it."""
        values: dict[str, Any] = {name: self.weight(name) for name in self._places}
        values.update(zip(self.input_names, inputs, strict=True))
        device = inputs[0].device
        for step in self._steps:
            try:
                made = self._made(step, values, device)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as error:
                raise NotTrainable(
                    f"{step.named} cannot be computed here: {str(error).strip().partition(chr(10))[0]}"
                ) from error
            values.update(zip(step.node.outputs, made if isinstance(made, tuple) else (made,), strict=False))
            for name in step.over:
                if name not in wanted:
                    values.pop(name, None)
        return values

    def _made(self, step: _Step, values: Mapping[str, Any], device: Any) -> Any:
        node = step.node
        if step.kind == "Shape":
            lengths = list(values[node.inputs[0]].shape)
            return of_lengths(lengths[node.get("start", 0) : node.get("end")])
        arrays = [self._array(values, name) for name in node.inputs]
        stays_whole = step.kind != "Cast" or node.get("to") in _INTEGERS
        if step.kind in SHAPES and stays_whole and all(one is not None and one.dtype.kind in "biO" for one in arrays):
            return SHAPES[step.kind](node.attributes, arrays)
        if step.run is None:
            raise ValueError("it is known for shapes alone")
        numbers = NUMBERS.get(step.kind, ())
        given = [arrays[at] if at in numbers else _tensor(values, name, device) for at, name in enumerate(node.inputs)]
        made = step.run(node, given)
        return made.to(device) if step.kind in MADE_HERE else made

    def _array(self, values: Mapping[str, Any], name: str) -> Array | None:
        """What is known of it as plain numbers: of small constants, and of what was computed of shapes."""
        found = values.get(name)
        return found if isinstance(found, np.ndarray) else self._known.get(name)

    def _hold(self, weights: Mapping[str, Array], constants: Mapping[str, Array]) -> None:
        counted, layered = set(), set()
        for node in self._model.graph.node:
            if node.op_type == "BatchNormalization":
                counted.update(node.input[3:5])
            if node.op_type in _LAYERS:
                layered.update(node.input[:2])
        for name, array in {**weights, **constants}.items():
            if array.dtype.kind not in "biufc":
                raise NotTrainable(f"the constant {name!r} holds texts, which torch does not take")
            tensor, place = torch.from_numpy(np.array(array)), self._places[name]
            learns = name in weights and name not in counted and tensor.dtype in _FLOATS and tensor.numel() > 1
            if learns and bool(torch.isfinite(tensor).all()):
                if name in layered and tensor.dim() > 1:
                    self.add_module(place, Weighted(tensor))
                else:
                    self.register_parameter(place, nn.Parameter(tensor))
            else:
                self.register_buffer(place, tensor, persistent=False)

    def _read(self, nodes: Sequence[Any], onnx: Any) -> list[_Step]:
        last = {name: number for number, node in enumerate(nodes) for name in (*node.input, *node.output)}
        stay = {*self.output_names, *self._places, *self.input_names}
        steps = []
        for number, node in enumerate(nodes):
            domain = "" if node.domain == "ai.onnx" else node.domain
            named = f"{domain + '.' if domain else ''}{node.op_type} (node {node.name or 'without a name'})"
            run = OPERATORS.get((domain, node.op_type))
            if run is None and (domain or node.op_type not in {*SHAPES, "Shape"}):
                raise NotTrainable(f"{named} cannot be trained here{_line(node)}")
            attributes = {one.name: _attribute(onnx, one) for one in node.attribute}
            read = Node(inputs=tuple(node.input), outputs=tuple(node.output), attributes=attributes, opset=self.opset)
            over = {name for name in (*node.input, *node.output) if last[name] == number} - stay
            steps.append(_Step(node=read, kind=node.op_type, named=named, run=run, over=tuple(sorted(over))))
        return steps


def library() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise Invalid("making models small needs onnx: pip install 'falaj[optimise,train]'") from None
    return onnx


def _tensor(values: Mapping[str, Any], name: str, device: Any) -> Any:
    if not name:
        return None
    found = values[name]
    if isinstance(found, np.ndarray):
        return torch.as_tensor(found.astype(np.int64) if found.dtype == object else found, device=device)
    return found


def _may_be_numbers(array: Array) -> bool:
    """A shape, axes; a bound, which is not learnt."""
    return array.ndim < 2 and ((array.dtype.kind in "bi" and array.size <= MOST) or array.size == 1)


def _constant(onnx: Any, node: Any) -> Array:
    value = onnx.helper.get_attribute_value(node.attribute[0])
    if node.attribute[0].name == "value":
        return np.asarray(onnx.numpy_helper.to_array(value))
    return np.asarray(value, dtype=np.float32 if "float" in node.attribute[0].name else np.int64)


def _attribute(onnx: Any, one: Any) -> Any:
    value = onnx.helper.get_attribute_value(one)
    if isinstance(value, onnx.TensorProto):
        return torch.from_numpy(np.array(onnx.numpy_helper.to_array(value)))
    return value.decode() if isinstance(value, bytes) else value


def _line(node: Any) -> str:
    """Where the exporter recorded it: the user's own line is the last that is told."""
    told: Mapping[str, str] = {one.key: one.value for one in getattr(node, "metadata_props", ())}
    for key in _LINES:
        if lines := [line.strip() for line in told.get(key, "").splitlines() if "File " in line]:
            return f"; it comes from {lines[-1]}"
    return ""
