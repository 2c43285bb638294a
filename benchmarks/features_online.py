"""Ten features of one entity, read in process: `features_online.py FOLDER ENTITIES`. The last line is JSON.

What a prediction does: the place of the entity is hashed, its row fetched from LMDB, opened and unpacked.
"""

import json
import secrets
import statistics
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from falaj.base.clock import Moment
from falaj.base.ids import ProjectId
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.rows import Field
from falaj.datasets.online.sealing import Secrets
from falaj.datasets.online.views import Asked, Given, OnlineView, ViewShape, read_together

FEATURES: Final = 10
READS: Final = 20_000
OF: Final = Moment(1_767_225_600_000_000)  # 2026


def main(folder: Path, entities: int) -> None:
    store = LmdbStore(folder / "online")
    fields = tuple(Field(name=f"feature_{number}", type="float64") for number in range(FEATURES))
    shape = ViewShape(project=ProjectId("0" * 32), name="bench", entity=(Field(name="driver", type="int64"),), features=fields)
    view = OnlineView(store, Secrets(places=secrets.token_bytes(32), rows={1: secrets.token_bytes(32)}), shape)
    values = np.random.default_rng(7).random((entities, FEATURES))
    view.write((Given((entity,), row, OF, OF) for entity, row in enumerate(values.tolist())), of=OF)
    asked = np.random.default_rng(8).integers(0, entities, READS).tolist()
    took = []
    for entity in asked:
        began = time.perf_counter()
        found = read_together([Asked(view, [(entity,)])], now=OF)[0][0]
        took.append(time.perf_counter() - began)
        if found is None or found.values != tuple(values[entity]):
            raise SystemExit(f"Entity {entity} has other values than were written.")
    print(json.dumps({"online_get_us": statistics.median(took) * 1e6, "p99_us": sorted(took)[int(READS * 0.99)] * 1e6}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
