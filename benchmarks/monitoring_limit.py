"""The limit: DuckDB counting both Parquet files by bins that it is given, with all the threads that it likes; no bins to
choose, no verdict. `monitoring_limit.py FOLDER`; the last line is JSON."""

import json
import math
import resource
import sys
import time
from pathlib import Path
from statistics import NormalDist
from typing import Final

import duckdb
import pyarrow.parquet as pq

_BINS: Final = 20
_PLACES: Final = [NormalDist().inv_cdf(place / _BINS) for place in range(1, _BINS)]


def count(folder: Path) -> dict[str, float]:
    began, used = time.perf_counter(), time.process_time()
    told: tuple[dict[object, int], ...] = ()
    for name in ("before", "after"):
        file = folder / f"{name}.parquet"
        schema = pq.read_schema(file)
        wanted = ", ".join(_histogram(one.name, is_text=str(one.type) == "string") for one in schema)
        told = duckdb.execute(f"SELECT {wanted} FROM read_parquet(?)", [str(file)]).fetchone() or ()
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = min(sum(bins.values()) for bins in told)
    return {
        "columns": len(told),
        "rows": rows,
        "seconds": round(seconds, 3),
        "processor_s": round(processor, 3),
        "peak_mb": round(peak, 1),
    }


def _histogram(name: str, *, is_text: bool) -> str:
    """Into about equally full bins, as ours are."""
    if is_text:
        return f"histogram({name})"
    edges = _PLACES if int(name[1:]) < 80 else [math.exp(3 + place) for place in _PLACES]
    return f"histogram({name}, [{', '.join(map(repr, edges))}])"


if __name__ == "__main__":
    print(json.dumps(count(Path(sys.argv[1]))))
