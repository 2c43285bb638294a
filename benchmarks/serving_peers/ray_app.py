"""Ray Serve with its batching, without access log and dashboard; it has no protocol of its own, so plain JSON."""

import json
import time

import numpy as np
import ray
from engine import BATCH_SECONDS, MOST_ROWS, PORT, Engine
from ray import serve
from starlette.requests import Request


@serve.deployment(num_replicas=1, max_ongoing_requests=256, ray_actor_options={"num_cpus": 1})
class Model:
    def __init__(self):
        self.engine = Engine()

    @serve.batch(max_batch_size=MOST_ROWS, batch_wait_timeout_s=BATCH_SECONDS)
    async def predict(self, rows):
        return list(self.engine(np.stack(rows)))

    async def __call__(self, request: Request):
        row = np.asarray(json.loads(await request.body())["x"], np.float32)[0]
        answer = await self.predict(row)
        return {"y": [answer.tolist()]}


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=300 << 20)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT}, logging_config={"enable_access_log": False})
    serve.run(Model.bind(), route_prefix="/", logging_config={"enable_access_log": False})
    while True:
        time.sleep(60)
