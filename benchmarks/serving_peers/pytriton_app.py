"""PyTriton: Triton's own server in C++ in front of a Python function, with its dynamic batcher."""

import numpy as np
from engine import BATCH_SECONDS, MOST_ROWS, OUTPUTS, PORT, SHAPE, Engine
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

engine = Engine()


@batch
def infer(x):
    return {"y": engine(x)}


if __name__ == "__main__":
    ports = {"http_port": PORT, "grpc_port": PORT + 1, "metrics_port": PORT + 2}
    with Triton(config=TritonConfig(http_address="127.0.0.1", log_verbose=0, **ports)) as triton:
        batcher = DynamicBatcher(max_queue_delay_microseconds=int(BATCH_SECONDS * 1e6))
        triton.bind(
            model_name="m",
            infer_func=infer,
            inputs=[Tensor(name="x", dtype=np.float32, shape=SHAPE)],
            outputs=[Tensor(name="y", dtype=np.float32, shape=(OUTPUTS,))],
            strict=False,
            config=ModelConfig(max_batch_size=MOST_ROWS, batcher=batcher),
        )
        triton.serve()
