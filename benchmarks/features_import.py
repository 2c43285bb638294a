"""CSV into a sealed version, as `falaj dataset import` does it, against DuckDB from CSV to plain Parquet: for `features`.

    features_import.py make FOLDER ROWS             rows.csv
    features_import.py falaj FOLDER                 into the platform whose home lies there
    features_import.py limit FOLDER                 into limit.parquet
    features_import.py compare FOLDER               whether both hold the same rows
    features_import.py append FOLDER                small appends, one after the other

The last line is JSON.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from falaj.app.home import Home, read_document
from falaj.client.dataset_pieces import cut
from falaj.client.dataset_writes import write
from falaj.client.datasets import dataset, save_dataset
from falaj.client.http import Client
from falaj.datasets.operations.writing import OpenWrite
from falaj.tables.forms import Form

PROJECT: Final = "bench"
DATASET: Final = "rides"
THREADS: Final = 2  # as many as the platform's data workers by default
APPENDS: Final = 40
_START: Final = 1_767_225_600_000_000  # 2026
_MILLION: Final = 1_000_000


def make(folder: Path, rows: int) -> dict[str, Any]:
    """What a company has in such files: numbers, times, names that come often and names that do not, gaps."""
    random = np.random.default_rng(7)
    file = folder / "rows.csv"
    writer: pcsv.CSVWriter | None = None
    for first in range(0, rows, _MILLION):
        table = _written(_some(random, first, min(_MILLION, rows - first)))
        writer = writer or pcsv.CSVWriter(file, table.schema, write_options=pcsv.WriteOptions(quoting_style="needed"))
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return {"rows": rows, "mb": file.stat().st_size / 1e6}


def falaj(folder: Path) -> dict[str, Any]:
    file = folder / "rows.csv"
    with client_of(folder) as client, file.open("rb") as stream:
        began, spent = time.perf_counter(), time.process_time()
        form, pieces = cut(stream, Form(time_zone="UTC"), name=file.name, size=file.stat().st_size)
        request = OpenWrite(project=PROJECT, dataset=DATASET, mode="overwrite", form=form, create=True)
        written = write(client, request, pieces)
        seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"seconds": seconds, "cpu_s": cpu, "rows": written.version.rows, "mb": written.version.size / 1e6}


def limit(folder: Path) -> dict[str, Any]:
    into = folder / "limit.parquet"
    began, spent = time.perf_counter(), time.process_time()
    with duckdb.connect(config={"threads": THREADS}) as database:
        read = f"FROM read_csv('{folder / 'rows.csv'}')"
        database.execute(f"COPY ({read}) TO '{into}' (FORMAT parquet, COMPRESSION zstd)")
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"seconds": seconds, "cpu_s": cpu, "mb": into.stat().st_size / 1e6}


def compare(folder: Path) -> dict[str, Any]:
    theirs = pq.read_table(folder / "limit.parquet")
    with client_of(folder) as client:
        ours = dataset(DATASET, project=PROJECT, client=client).arrow()
    theirs = pa.table({field.name: _like(theirs.column(field.name), field.type) for field in ours.schema})
    return {"same": ours.equals(theirs), "rows": ours.num_rows}


def append(folder: Path) -> dict[str, Any]:
    """A hundred rows at a time, each a version of its own: opened, sent, committed."""
    some = _some(np.random.default_rng(8), 0, 100)
    took = []
    with client_of(folder) as client:
        for _ in range(APPENDS):
            began = time.perf_counter()
            save_dataset("small", some, project=PROJECT, client=client)
            took.append(time.perf_counter() - began)
    return {"commit_ms": statistics.median(took) * 1000, "slowest_ms": max(took) * 1000}


def client_of(folder: Path) -> Client:
    home = Home(path=folder / "home")
    return Client(str(read_document(home.server)["url"]), str(read_document(home.credentials)["token"]), timeout=600)


def _some(random: np.random.Generator, first: int, rows: int) -> pa.Table:
    cities = pa.array(["Abu Dhabi", "Dubai", "Sharjah", "Al Ain", "Ajman", "Fujairah", "Ras Al Khaimah"])
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + rows)),
            "began": pa.array(_START + random.integers(0, 31_536_000, rows) * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "customer": pa.array([f"customer-{number:06}" for number in random.integers(0, 500_000, rows).tolist()]),
            "city": cities.take(pa.array(random.integers(0, 7, rows))),
            "fare": pa.array(np.round(random.lognormal(3, 1, rows), 2)),
            "kilometres": pa.array(np.round(random.gamma(2, 4, rows), 3)),
            "passengers": pa.array(random.integers(1, 7, rows)),
            "rating": pa.array(np.round(random.random(rows) * 5, 1), mask=random.random(rows) < 0.1),
            "shared": pa.array(random.random(rows) < 0.2),
        }
    )


def _written(table: pa.Table) -> pa.Table:
    """Times as most programs write them: to the second, without a zone."""
    began = table.column("began").cast(pa.timestamp("us")).cast(pa.timestamp("s"))
    return table.set_column(table.column_names.index("began"), "began", began)


def _like(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """DuckDB's times have no zone; these are UTC's."""
    return column.cast(pa.timestamp("us")).cast(kind) if pa.types.is_timestamp(kind) else column.cast(kind)


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    found = make(folder, int(sys.argv[3])) if what == "make" else globals()[what](folder)
    print(json.dumps(found))
