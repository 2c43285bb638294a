"""KServe's model server, without documentation pages and without a line in the log for every call. It does not batch."""

import os

os.environ["KSERVE_LOGLEVEL"] = "ERROR"  # read on import

from engine import PORT, Engine
from kserve import InferOutput, InferResponse, Model, ModelServer


class OnnxModel(Model):
    def __init__(self):
        super().__init__("m")
        self.engine, self.ready = Engine(), True

    async def predict(self, payload, headers=None, response_headers=None):
        answer = self.engine(payload.inputs[0].as_numpy())
        output = InferOutput("y", list(answer.shape), "FP32", data=answer)
        if payload.from_grpc:  # whose encoder takes no array
            output.set_data_from_numpy(answer, binary_data=True)
        binary, requested = payload.use_binary_outputs, payload.request_outputs
        return InferResponse(payload.id or "", "m", [output], use_binary_outputs=binary, requested_outputs=requested)


if __name__ == "__main__":
    ModelServer(
        http_port=PORT,
        grpc_port=PORT + 1,
        workers=1,
        enable_docs_url=False,
        enable_latency_logging=False,
        access_log_format=None,
    ).start([OnnxModel()])
