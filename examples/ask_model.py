"""A program that asks for predictions over REST and gRPC, as written for any server with the Open Inference Protocol.

    python ask_model.py HOST:PORT MODEL ROWS.json

Nothing in it knows Falaj: it needs the stock `tritonclient`, and a token in INFERENCE_TOKEN.
"""

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http


def ask(protocol: ModuleType, address: str, model: str, rows: Any) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {os.environ['INFERENCE_TOKEN']}"}
    client = protocol.InferenceServerClient(address)
    given = protocol.InferInput("X", list(rows.shape), "FP32")
    given.set_data_from_numpy(rows)
    answer = client.infer(model, [given], headers=headers)
    said = answer.get_response(**({"as_json": True} if protocol is tritonclient.grpc else {}))
    client.close()
    return {"revision": said["model_version"], "probabilities": answer.as_numpy("probabilities").tolist()}


if __name__ == "__main__":
    address, model, file = sys.argv[1:]
    rows = np.array(json.loads(Path(file).read_text()), dtype=np.float32)
    found = {name: ask(kind, address, model, rows) for name, kind in (("REST", tritonclient.http), ("gRPC", tritonclient.grpc))}
    print(json.dumps(found))
