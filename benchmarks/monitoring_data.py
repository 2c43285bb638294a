"""Rows for the benchmark of monitoring. The last line is JSON.

    monitoring_data.py files FOLDER ROWS                  before.parquet and after.parquet: the same laws, other rows
    monitoring_data.py stream FOLDER SEED WINDOWS ROWS    reference.parquet, and windows.parquet with a row group each

Of a hundred features 80 are normal, 10 have a heavy tail and 10 are texts of 20 kinds.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FEATURES: Final = 100
LEARNT: Final = 10_000  # rows of a stream's reference: as many as a monitor learns from, as it ships
_NORMAL, _TAILED, _KINDS = 80, 10, 20
_AT_ONCE: Final = 100_000


def rows_of(random: np.random.Generator, rows: int) -> pa.Table:
    columns: dict[str, Any] = {f"f{place}": random.standard_normal(rows) for place in range(_NORMAL)}
    columns |= {f"f{place}": random.lognormal(3, 1, rows) for place in range(_NORMAL, _NORMAL + _TAILED)}
    kinds = np.array([f"kind {number}" for number in range(_KINDS)])
    columns |= {f"f{place}": random.choice(kinds, rows) for place in range(_NORMAL + _TAILED, FEATURES)}
    return pa.table(columns)


def write(file: Path, tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def files(folder: Path, rows: int) -> None:
    for seed, name in enumerate(("before", "after")):
        random = np.random.default_rng(seed)
        sizes = [min(_AT_ONCE, rows - start) for start in range(0, rows, _AT_ONCE)]
        write(folder / f"{name}.parquet", (rows_of(random, size) for size in sizes))


def stream(folder: Path, seed: int, windows: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    write(folder / "reference.parquet", iter([rows_of(random, LEARNT)]))
    write(folder / "windows.parquet", (rows_of(random, rows) for _ in range(windows)))


if __name__ == "__main__":
    what, place, numbers = sys.argv[1], Path(sys.argv[2]), [int(one) for one in sys.argv[3:]]
    if what == "files":
        files(place, *numbers)
    else:
        stream(place, *numbers)
    print(json.dumps({"bytes": sum(file.stat().st_size for file in place.glob("*.parquet"))}))
