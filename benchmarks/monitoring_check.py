"""One Parquet file held against another by Falaj as it ships, and what that takes: `monitoring_check.py FOLDER`.

Bins are chosen by the first file, both are counted, and every column is judged. The last line is JSON.
"""

import json
import resource
import sys
import time
from pathlib import Path

from falaj.monitoring.files import files_checked


def check(folder: Path) -> dict[str, float]:
    began, used = time.perf_counter(), time.process_time()
    found = files_checked(folder / "before.parquet", folder / "after.parquet")
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    drifting = sum(one.outcome.drifting for one in found)
    return {
        "columns": len(found),
        "drifting": drifting,
        "seconds": round(seconds, 3),
        "processor_s": round(processor, 3),
        "peak_mb": round(peak, 1),
    }


if __name__ == "__main__":
    print(json.dumps(check(Path(sys.argv[1]))))
