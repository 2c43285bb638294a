"""One epoch of a table into tensors, timed: `features_loader.py make|falaj|plain|batched FOLDER [ROWS]`, where torch is. The
last line is JSON.

All give shuffled batches of 1,024 rows, 20 features and a target, from the same rows: Falaj from sealed parts with two reading
threads, the others from plain Parquet with two loader processes. `plain` is what everybody writes, a dataset of rows; `batched`
is written by hand for this table: each process reads whole row groups, mixes and cuts them.
"""

import json
import secrets
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from falaj.client.dataset_loaders import Fed, torch_batches
from falaj.tables.arrays import GroupArrays
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.granted import SealedPart
from falaj.tables.parts import PartWriter
from falaj.tables.schemas import Schema

BATCH: Final = 1024
GROUP: Final = 131_072
PART: Final = 1_000_000
FEATURES: Final = tuple(f"feature_{number}" for number in range(20))


def make(folder: Path, rows: int) -> None:
    """Numbers as tables have them: amounts to the cent, counts, shares."""
    random = np.random.default_rng(7)
    makers = (
        lambda: np.round(random.lognormal(3, 1, rows), 2),
        lambda: random.integers(0, 500, rows),
        lambda: random.random(rows),
        lambda: random.normal(0, 1, rows).astype(np.float32),
    )
    columns: dict[str, Any] = {name: makers[number % len(makers)]() for number, name in enumerate(FEATURES)}
    table = pa.table(columns | {"target": random.integers(0, 10, rows)})
    pq.write_table(table, folder / "rows.parquet", compression="zstd", compression_level=1, row_group_size=GROUP)
    parts = []
    for start in range(0, rows, PART):
        key, object_id, file = secrets.token_bytes(32), secrets.token_hex(16), f"{start}.part"
        with (
            (folder / file).open("wb") as out,
            PartWriter(out, from_arrow(table.schema), key=key, object_id=object_id) as writer,
        ):
            for batch in table.slice(start, PART).to_batches(65_536):
                writer.write(batch)
        parts.append({"file": file, "key": key.hex(), "id": object_id})
    (folder / "parts.json").write_text(json.dumps(parts))


def falaj(folder: Path) -> Any:
    parts = [
        SealedPart(
            object_id=one["id"],
            key=bytes.fromhex(one["key"]),
            renamed={},
            fetch=(folder / one["file"]).read_bytes,
            seek=partial((folder / one["file"]).open, "rb"),
        )
        for one in json.loads((folder / "parts.json").read_text())
    ]
    schema: Schema = from_arrow(pq.read_schema(folder / "rows.parquet"))
    fed = Fed(features=FEATURES, target="target", batch_size=BATCH, shuffle=True)
    return torch_batches(GroupArrays(schema, parts), fed)


class Rows(Dataset):  # type: ignore[misc,unused-ignore]
    """The table in memory, given out row by row."""

    def __init__(self, file: Path) -> None:
        table = pq.read_table(file)
        self.features = np.column_stack([table.column(name).to_numpy().astype(np.float32) for name in FEATURES])
        self.target = table.column("target").to_numpy()

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return torch.from_numpy(self.features[index]), self.target[index]


class RowGroups(IterableDataset):  # type: ignore[misc,unused-ignore]
    """Whole row groups, each for one of the loader processes."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        reader, worker = pq.ParquetFile(self.file), get_worker_info()
        groups = np.random.default_rng(1).permutation(reader.metadata.num_row_groups)
        for group in groups[worker.id :: worker.num_workers].tolist():
            table = reader.read_row_group(group)
            mixed = np.random.default_rng(group).permutation(table.num_rows)
            matrix = np.column_stack([table.column(name).to_numpy().astype(np.float32) for name in FEATURES])[mixed]
            target = table.column("target").to_numpy()[mixed]
            for start in range(0, len(target), BATCH):
                yield torch.from_numpy(matrix[start : start + BATCH]), torch.from_numpy(target[start : start + BATCH])


def plain(folder: Path) -> Any:
    return DataLoader(Rows(folder / "rows.parquet"), batch_size=BATCH, shuffle=True, num_workers=2)


def batched(folder: Path) -> Any:
    return DataLoader(RowGroups(folder / "rows.parquet"), batch_size=None, num_workers=2)


def main() -> None:
    who, folder = sys.argv[1], Path(sys.argv[2])
    if who == "make":
        make(folder, int(sys.argv[3]))
        return
    began = time.perf_counter()
    rows = told = 0
    for features, target in {"falaj": falaj, "plain": plain, "batched": batched}[who](folder):
        rows += len(features)
        told += int(target.sum())
    seconds = time.perf_counter() - began
    print(json.dumps({"rows_s": rows / seconds, "rows": rows, "sum": told}))


if __name__ == "__main__":
    main()
