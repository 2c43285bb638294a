"""From torch to files that are served: students as ONNX, and a model's graph as a program for GPUs."""

import inspect
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from falaj.base.errors import Invalid
from falaj.training.shrinking.graphs import Graph

Array = npt.NDArray[Any]
_MOST_ROWS: Final = 1 << 20


def exported(module: nn.Module, inputs: Sequence[Array], names: Sequence[str], outputs: Sequence[str]) -> bytes:
    """As ONNX, with any number of rows. `inputs` are some rows, as the model takes them."""
    examples, rows = _examples(inputs), torch.export.Dim("rows", min=1, max=_MOST_ROWS)
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # else it names every operator of libraries that are not there
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter, about itself
            made: Any = torch.onnx.export(
                _Several(module).eval(),
                examples,
                dynamo=True,
                external_data=False,
                verbose=False,
                input_names=list(names),
                output_names=list(outputs),
                dynamic_shapes=(({0: rows},) * len(examples),),
            )
    finally:
        log.setLevel(level)
    model = made.model_proto
    for told in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        del told.metadata_props[:]  # where in our files each node comes from: longer than a small student itself
    return bytes(model.SerializeToString())


def program(content: bytes, inputs: Sequence[Array], *, dtype: Literal["f32", "bf16", "f16"]) -> bytes:
    """The model as a program of torch's, which the torch runtime loads, on a GPU as well; numbers go in and out in float32."""
    kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    if dtype not in kinds:
        raise Invalid(f"a program counts in {', '.join(kinds)}, not in {dtype}")
    graph = Graph.read(content).eval()
    if odd := [name for name in graph.input_names if not name.isidentifier()]:
        raise Invalid(f"a program takes no input that is called {odd[0]!r}: its names are those of Python's arguments")
    rows = torch.export.Dim("rows", min=1, max=_MOST_ROWS)
    whole, shapes = _Cast(graph, kinds[dtype]), {name: {0: rows} for name in graph.input_names}
    try:
        made = torch.export.export(whole, _examples(inputs), dynamic_shapes=shapes, strict=False)
    except (RuntimeError, ValueError, TypeError, torch._dynamo.exc.UserError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise Invalid(f"the model does not become one program for any number of rows: {reason}") from error
    file = io.BytesIO()
    torch.export.save(made, file)
    return file.getvalue()


class _Several(nn.Module):
    """Takes as many inputs as there are, under no names: the ONNX model has its own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def _examples(inputs: Sequence[Array]) -> tuple[Any, ...]:
    return tuple(torch.from_numpy(np.array(one[:2])) for one in inputs)


class _Cast(nn.Module):
    """The graph in another precision. Its arguments and answers are called as the graph's are: programs keep those names."""

    def __init__(self, graph: Graph, dtype: Any) -> None:
        super().__init__()
        self.graph, self.dtype = graph.to(dtype), dtype
        self.forward = self._named(graph.input_names)

    def _named(self, names: Sequence[str]) -> Callable[..., Any]:
        def forward(*inputs: Any) -> dict[str, Any]:
            made = self.graph(*[one.to(self.dtype) if one.is_floating_point() else one for one in inputs])
            wide = [one.float() if one.is_floating_point() else one for one in made]
            return dict(zip(self.graph.output_names, wide, strict=True))

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        return forward
