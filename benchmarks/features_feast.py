"""Feast's point-in-time join over the same rows, with its local provider as it ships: `features_feast.py FOLDER KEY...`.

Runs in an environment of its own. The last line is JSON. The result lies beside the rows, for comparison.
"""

import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
from feast.types import Float64, Int64

LIVE = {"merchant": timedelta(days=60)}
COLUMNS = {"amount": Float64, "trips": Int64, "rating": Float64}


def store_of(folder, keys, repository):
    config = RepoConfig(
        project="bench",
        provider="local",
        registry=f"{repository}/registry.db",
        online_store={"type": "sqlite", "path": f"{repository}/online.db"},
        entity_key_serialization_version=3,
    )
    store = FeatureStore(config=config, repo_path=None)
    for key in keys:
        kind = ValueType.STRING if key == "customer" else ValueType.INT64
        entity = Entity(name=key, join_keys=[key], value_type=kind)
        source = FileSource(path=str(folder / f"{key}.parquet"), timestamp_field="event", created_timestamp_column="known")
        fields = [Field(name=name, dtype=dtype) for name, dtype in COLUMNS.items()]
        view = FeatureView(name=key, entities=[entity], schema=fields, source=source, ttl=LIVE.get(key, timedelta(0)))
        store.apply([entity, view])
    return store


def main():
    folder, keys = Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as repository:
        store = store_of(folder, keys, repository)
        features = [f"{key}:{name}" for key in keys for name in COLUMNS]
        began = time.perf_counter()
        labels = pq.read_table(folder / "labels.parquet").to_pandas().rename(columns={"t": "event_timestamp"})
        table = store.get_historical_features(labels, features, full_feature_names=True).to_arrow()
        seconds = time.perf_counter() - began
    found = table.to_pandas().rename(columns={f"{key}__{name}": f"{key}_{name}" for key in keys for name in COLUMNS})
    pd.DataFrame(found).to_parquet(folder / "feast.result.parquet")
    print(json.dumps({"seconds": seconds, "rows": table.num_rows}))


if __name__ == "__main__":
    main()
