"""Answers of an ONNX model by the engine that will serve it. The only file of training that needs ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import onnxruntime


def answers(content: bytes, feeds: Mapping[str, Any], threads: int = 1) -> list[Any]:
    """Its outputs, in order."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors; what it thinks of the graph is no news for whoever trains
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, dict(feeds))
    return found
