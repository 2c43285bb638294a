"""Rows a second of ONNX Runtime alone, on one thread, called in this process: what a server of that model can reach at most.

limit.py MODEL SECONDS BATCH[,BATCH...]        needs onnxruntime only; prints one JSON object, batch -> rows a second
"""

import json
import sys
import time

import numpy as np
import onnxruntime


def rows_per_second(session, batch, seconds):
    wanted = session.get_inputs()[0]
    rows = np.random.default_rng(0).standard_normal((batch, *wanted.shape[1:]), dtype=np.float32)
    session.run(None, {wanted.name: rows})
    calls, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        session.run(None, {wanted.name: rows})
        calls += 1
    return calls * batch / (time.perf_counter() - began)


def main():
    file, seconds, batches = sys.argv[1], float(sys.argv[2]), [int(size) for size in sys.argv[3].split(",")]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    print(json.dumps({str(batch): rows_per_second(session, batch, seconds) for batch in batches}))


if __name__ == "__main__":
    main()
