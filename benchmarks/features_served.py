"""Features over REST: 100 entities in a call, 32 clients at a time, at the platform whose home lies in a folder.

`features_served.py FOLDER ENTITIES`. The last line is JSON.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
from features_import import PROJECT, client_of
from load import http_request, latencies

from falaj.app.home import Home, read_document
from falaj.client.datasets import save_dataset
from falaj.client.http import Client
from falaj.datasets.operations.features import (
    APPLY_VIEW,
    GET_FEATURES,
    MATERIALISE,
    ApplyView,
    GetFeatures,
    Materialise,
)
from falaj.tables.joining.views import Feature, Key
from falaj.tables.moments import MOMENT

FEATURES: Final = 10
ASKED: Final = 100
CLIENTS: Final = 32
CALLS: Final = 4000
SECONDS: Final = 60.0
WARMING: Final = 500


def main(folder: Path, entities: int) -> None:
    with client_of(folder) as client:
        values = served(client, entities)
        must_agree(client, values)
    home = Home(path=folder / "home")
    url, token = str(read_document(home.server)["url"]), str(read_document(home.credentials)["token"])
    random = np.random.default_rng(8)

    def asking() -> bytes:
        asked = [{"driver": entity} for entity in random.integers(0, entities, ASKED).tolist()]
        body = json.dumps({"features": ["drivers"], "entities": asked}).encode()
        return http_request("POST", url, f"/v1/projects/{PROJECT}/feature-values", token=token, body=body)

    latencies(url, connections=CLIENTS, calls=WARMING, seconds=SECONDS, next_request=asking)
    began = time.perf_counter()
    took = sorted(latencies(url, connections=CLIENTS, calls=CALLS, seconds=SECONDS, next_request=asking))
    seconds = time.perf_counter() - began
    told = {
        "online_http_p99_ms": took[int(len(took) * 0.99)] * 1000,
        "online_http_p50_ms": median(took) * 1000,
        "online_http_calls_s": len(took) / seconds,
    }
    print(json.dumps(told))


def served(client: Client, entities: int) -> dict[str, list[float]]:
    """A view of ten features, materialised."""
    random = np.random.default_rng(7)
    values = {f"feature_{number}": random.random(entities).tolist() for number in range(FEATURES)}
    event = pa.array([1_767_225_600_000_000] * entities).cast(MOMENT)
    rows = pa.table({"driver": pa.array(range(entities)), "event": event, **values})
    save_dataset("drivers", rows, project=PROJECT, client=client)
    view = ApplyView(
        project=PROJECT,
        view="drivers",
        dataset="drivers",
        keys=(Key(column="driver"),),
        event="event",
        features=tuple(Feature(name=name, column=name) for name in values),
    )
    client.call(APPLY_VIEW, view)
    client.call(MATERIALISE, Materialise(project=PROJECT, view="drivers"))
    return values


def must_agree(client: Client, values: dict[str, list[float]]) -> None:
    asked = tuple({"driver": entity} for entity in range(ASKED))
    found = client.call(GET_FEATURES, GetFeatures(project=PROJECT, features=("drivers",), entities=asked)).rows
    expected = [tuple(column[entity] for column in values.values()) for entity in range(ASKED)]
    if list(map(tuple, found)) != expected:
        raise SystemExit("The platform gives other values than were written.")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
