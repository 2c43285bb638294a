"""The one ONNX Runtime engine that every peer serves; model, threads and port come from the environment.

Runs in the peers' environments, as the `*_app.py` beside it do.
"""

import os

import numpy as np
import onnxruntime

FILE = os.environ["BENCH_MODEL"]
SHAPE = tuple(int(size) for size in os.environ["BENCH_SHAPE"].split(","))
OUTPUTS = int(os.environ["BENCH_OUTPUTS"])
MOST_ROWS = int(os.environ["BENCH_MOST_ROWS"])
PORT = int(os.environ["BENCH_PORT"])
BATCH_SECONDS = 0.001  # what a peer with dynamic batching waits for more rows


class Engine:
    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(FILE, options, providers=["CPUExecutionProvider"])
        self(np.zeros((1, *SHAPE), np.float32))

    def __call__(self, rows):
        return self.session.run(None, {"x": rows})[0]
