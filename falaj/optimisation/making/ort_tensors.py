"""What is in a graph while it runs: tensors within an ONNX model, for given rows."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnxruntime
from onnx import helper

from falaj.optimisation.making.onnx_graphs import input_names
from falaj.optimisation.making.values import Array, CannotBeMade, Sample

_BATCH: Final = 256


def tensor_values(model: Any, names: Sequence[str], sample: Sample) -> list[Array]:
    """For all rows, in order; each tensor must have the rows on its first axis."""
    asked = type(model)()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    asked.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    given = input_names(model.graph)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # As it is written: what is fused away cannot be looked at.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(asked.SerializeToString(), options, providers=["CPUExecutionProvider"])
        parts = []
        for start in range(0, sample.rows, _BATCH):
            rows = sample.part(start, start + _BATCH).inputs
            parts.append(session.run(list(names), dict(zip(given, rows, strict=True))))
    except Exception as error:  # its errors have no class of their own
        raise CannotBeMade(f"ONNX Runtime cannot run the model: {str(error).strip().partition(chr(10))[0][:300]}") from error
    return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
