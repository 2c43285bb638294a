"""The same read by Feast's SQLite online store: `features_feast_online.py FOLDER ENTITIES`. The last line is JSON.

Runs in an environment of its own.
"""

import json
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
from feast.types import Float64

FEATURES = [f"feature_{number}" for number in range(10)]
READS = 1000
WARMING = 50


def store_of(folder):
    config = RepoConfig(
        project="bench",
        provider="local",
        registry=f"{folder}/registry.db",
        online_store={"type": "sqlite", "path": f"{folder}/feast.db"},
        entity_key_serialization_version=3,
    )
    return FeatureStore(config=config, repo_path=None)


def main():
    folder, entities = Path(sys.argv[1]), int(sys.argv[2])
    values = np.random.default_rng(7).random((entities, len(FEATURES)))
    rows = pd.DataFrame(values, columns=FEATURES)
    rows["driver"], rows["event"] = np.arange(entities), datetime(2026, 1, 1, tzinfo=UTC)
    rows.to_parquet(folder / "feast.parquet")
    store = store_of(folder)
    driver = Entity(name="driver", join_keys=["driver"], value_type=ValueType.INT64)
    source = FileSource(path=str(folder / "feast.parquet"), timestamp_field="event")
    fields = [Field(name=name, dtype=Float64) for name in FEATURES]
    view = FeatureView(name="bench", entities=[driver], schema=fields, source=source, ttl=timedelta(0))
    store.apply([driver, view])
    store.write_to_online_store("bench", df=rows)
    names = [f"bench:{name}" for name in FEATURES]
    took = []
    for entity in np.random.default_rng(8).integers(0, entities, READS + WARMING).tolist():
        began = time.perf_counter()
        found = store.get_online_features(features=names, entity_rows=[{"driver": entity}]).to_dict()
        took.append(time.perf_counter() - began)
        if [found[name][0] for name in FEATURES] != values[entity].tolist():
            raise SystemExit(f"Entity {entity} has other values than were written.")
    print(json.dumps({"us": statistics.median(took[WARMING:]) * 1e6}))


if __name__ == "__main__":
    main()
