"""BentoML with adaptive batching, without its metrics and access log; it has a protocol of its own, JSON only."""

from typing import Annotated

import bentoml
import numpy as np
from bentoml.validators import DType
from engine import MOST_ROWS, Engine


@bentoml.service(
    workers=1,
    traffic={"timeout": 60, "max_concurrency": 512},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class Model:
    def __init__(self):
        self.engine = Engine()

    @bentoml.api(batchable=True, max_batch_size=MOST_ROWS, max_latency_ms=60000)
    def predict(self, x: Annotated[np.ndarray, DType("float32")]) -> np.ndarray:
        return self.engine(x)
