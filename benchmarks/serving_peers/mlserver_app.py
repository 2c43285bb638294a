"""MLServer with a runtime of our own; run as a program it writes its settings folder and becomes `mlserver start`."""

import json
import os
import sys
from pathlib import Path

from engine import BATCH_SECONDS, MOST_ROWS, PORT, Engine
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

# No processes of an inference pool: the documentation's advice for light models, and faster here.
SETTINGS = {
    "host": "127.0.0.1",
    "http_port": PORT,
    "grpc_port": PORT + 1,
    "metrics_port": PORT + 2,
    "parallel_workers": 0,
    "debug": False,
    "use_structured_logging": False,
}
MODEL = {
    "name": "m",
    "implementation": "mlserver_app.OnnxModel",
    "max_batch_size": MOST_ROWS,
    "max_batch_time": BATCH_SECONDS,
}


class OnnxModel(MLModel):
    async def load(self):
        self.engine = Engine()
        return True

    async def predict(self, payload):
        rows = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(model_name="m", outputs=[NumpyCodec.encode_output("y", self.engine(rows))])


if __name__ == "__main__":
    folder = Path(os.environ["BENCH_FOLDER"])
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    (folder / "model-settings.json").write_text(json.dumps(MODEL))
    command = Path(sys.executable).with_name("mlserver")
    os.execv(command, [str(command), "start", str(folder)])
