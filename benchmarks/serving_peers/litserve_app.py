"""LitServe with batching and its fast queue; it has a protocol of its own, JSON only."""

import litserve
import numpy as np
from engine import BATCH_SECONDS, MOST_ROWS, PORT, Engine


class Api(litserve.LitAPI):
    def setup(self, device):
        self.engine = Engine()

    def decode_request(self, request):
        return np.asarray(request["x"], np.float32)[0]

    def batch(self, inputs):
        return np.stack(inputs)

    def predict(self, x):
        return self.engine(x)

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"y": np.atleast_2d(output).tolist()}


if __name__ == "__main__":
    api = Api(max_batch_size=MOST_ROWS, batch_timeout=BATCH_SECONDS)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True, timeout=60)
    server.run(
        port=PORT,
        host="127.0.0.1",
        num_api_servers=1,
        generate_client_file=False,
        log_level="error",
        access_log=False,
    )
