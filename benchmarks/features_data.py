"""What the join is measured with: labels, and views whose rows become known late, for every program of `features`.

`features_data.py FOLDER LABELS ROWS KEY...` makes them.
"""

import json
import secrets
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.joining.views import Feature, Key, View
from falaj.tables.moments import MOMENT
from falaj.tables.parts import PartReader, PartWriter

DAY: Final = 86_400_000_000
START: Final = 1_767_225_600_000_000  # 2026
PART_ROWS: Final = 2_000_000
KEYS: Final = {"driver": 50_000, "customer": 100_000, "merchant": 50_000}  # how many there are
LIVE: Final = {"driver": None, "customer": None, "merchant": 60 * DAY}
COLUMNS: Final = ("amount", "trips", "rating")


def view_of(key: str, known: str = "known") -> View:
    features = tuple(Feature(name=f"{key}_{column}", column=column) for column in COLUMNS)
    return View(name=key, keys=(Key(column=key),), event="event", known=known, features=features, time_to_live=LIVE[key])


def make(folder: Path, *, labels: int, rows: int, keys: tuple[str, ...]) -> None:
    """Plain Parquet for the others, sealed parts of the same rows for Falaj."""
    random = np.random.default_rng(7)
    columns = {"id": pa.array(np.arange(labels))} | {key: _entities(random, key, labels) for key in keys}
    columns["t"] = _moments(START + 30 * DAY + random.integers(0, 335 * DAY, labels))
    pq.write_table(pa.table(columns), folder / "labels.parquet", row_group_size=131_072)
    for key in keys:
        table = _rows(random, key, rows)
        pq.write_table(table, folder / f"{key}.parquet", compression="zstd", compression_level=1, row_group_size=131_072)
        _seal(table, folder, key)


def sealed(folder: Path, key: str) -> list[PartReader]:
    written = json.loads((folder / f"{key}.json").read_text())
    return [PartReader(folder / one["file"], key=bytes.fromhex(one["key"]), object_id=one["id"]) for one in written]


def _rows(random: np.random.Generator, key: str, rows: int) -> pa.Table:
    event = START + random.integers(0, 365 * DAY, rows)
    late = np.where(random.random(rows) < 0.8, random.exponential(300e6, rows), random.exponential(3 * DAY, rows))
    return pa.table(
        {
            key: _entities(random, key, rows),
            "event": _moments(event),
            "known": _moments(event + late.astype(np.int64)),
            "amount": pa.array(np.round(random.lognormal(3, 1, rows), 2)),
            "trips": pa.array(random.integers(0, 500, rows)),
            "rating": pa.array(random.random(rows), mask=random.random(rows) < 0.05),
        }
    )


def _seal(table: pa.Table, folder: Path, key: str) -> None:
    written: list[dict[str, Any]] = []
    for start in range(0, table.num_rows, PART_ROWS):
        secret, object_id, file = secrets.token_bytes(32), secrets.token_hex(16), f"{key}-{start}.part"
        with (
            (folder / file).open("wb") as out,
            PartWriter(out, from_arrow(table.schema), key=secret, object_id=object_id) as writer,
        ):
            for batch in table.slice(start, PART_ROWS).to_batches(65_536):
                writer.write(batch)
        written.append({"file": file, "key": secret.hex(), "id": object_id})
    (folder / f"{key}.json").write_text(json.dumps(written))


def _entities(random: np.random.Generator, key: str, rows: int) -> pa.Array:
    numbers = random.integers(0, KEYS[key], rows)
    if key != "customer":
        return pa.array(numbers * 7919)
    names = pa.array([f"customer-{number:06}" for number in range(KEYS[key])])
    return names.take(pa.array(numbers))


def _moments(microseconds: Any) -> pa.Array:
    return pa.array(microseconds).cast(MOMENT)


if __name__ == "__main__":
    make(Path(sys.argv[1]), labels=int(sys.argv[2]), rows=int(sys.argv[3]), keys=tuple(sys.argv[4:]))
