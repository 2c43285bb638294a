"""One point-in-time join, timed: `features_pit.py falaj|careless|limit FOLDER KEY...`. The last line is JSON.

The limit is hand-written DuckDB over plain Parquet: what is overtaken when it becomes known is dropped, the rest is joined by
the moment it became available.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import features_data as data
import pyarrow as pa
import pyarrow.parquet as pq

from falaj.tables.joining.rows import Piece
from falaj.tables.joining.training_sets import Source, training_set

_VIEW = """
    select {key}, available, event, {columns} from (
        select *, greatest(event, known) as available, max(event) over (
            partition by {key} order by greatest(event, known) rows between unbounded preceding and 1 preceding
        ) as newest from read_parquet('{file}')
    ) where newest is null or event >= newest
"""


def falaj(folder: Path, keys: Sequence[str], known: str = "known") -> pa.Table:
    labels = pq.read_table(folder / "labels.parquet")
    sources = []
    for key in keys:
        pieces = tuple(Piece(rows=part) for part in data.sealed(folder, key))
        sources.append(Source(view=data.view_of(key, known), pieces=pieces))
    return pa.concat_tables(training_set(labels, time="t", sources=sources))


def careless(folder: Path, keys: Sequence[str]) -> pa.Table:
    """As if everything had been known when it happened: what a join by event time alone finds."""
    return falaj(folder, keys, "event")


def limit(folder: Path, keys: Sequence[str]) -> pa.Table:
    columns, joins = [], []
    for key in keys:
        live = data.LIVE[key]
        for name in data.COLUMNS:
            alive = f"case when {key}_.event > t - to_microseconds({live}) then {key}_.{name} end" if live else f"{key}_.{name}"
            columns.append(f"{alive} as {key}_{name}")
        rows = _VIEW.format(key=key, columns=", ".join(data.COLUMNS), file=folder / f"{key}.parquet")
        joins.append(f"asof left join ({rows}) {key}_ on labels.{key} = {key}_.{key} and t >= {key}_.available")
    question = (
        f"select labels.*, {', '.join(columns)} from read_parquet('{folder / 'labels.parquet'}') labels {' '.join(joins)}"
    )
    with duckdb.connect(config={"threads": 2}) as connection:
        return connection.sql(f"{question} order by id").to_arrow_table()


def peak_gib() -> float:
    """The most that was resident, of this program alone."""
    told = Path("/proc/self/status").read_text()
    return int(told.split("VmHWM:")[1].split()[0]) / (1 << 20)


def main() -> None:
    who, folder, keys = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    began = time.perf_counter()
    table = {"falaj": falaj, "careless": careless, "limit": limit}[who](folder, keys)
    seconds = time.perf_counter() - began
    peak = peak_gib()
    pq.write_table(table, folder / f"{who}.result.parquet")
    print(json.dumps({"seconds": seconds, "peak_gib": peak, "rows": table.num_rows}))


if __name__ == "__main__":
    main()
