"""Batches of a sealed dataset on a GPU: pinned as they are read, copied beside the computing, and the same as on a CPU.

`python -m benchmarks.gpu_loader` where there are CUDA, torch and pyarrow; no platform and no network is needed. Prints what
it saw, and as its last line one JSON object: rows into the GPU's memory in a second, with pinned memory and without.
"""

import importlib.util
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

ROWS, COLUMNS, PART, BATCH = 4_000_000, 16, 1_000_000, 10_000


def opening(file: Path) -> Callable[[], IO[bytes]]:
    return lambda: file.open("rb")


def sealed(folder: Path) -> Any:
    import numpy as np
    import pyarrow as pa

    from falaj.tables.arrow_schemas import from_arrow
    from falaj.tables.granted import SealedPart
    from falaj.tables.parts import PartWriter

    random, parts = np.random.default_rng(7), []
    schema = pa.schema([("id", pa.int64()), *((f"x{number}", pa.float32()) for number in range(COLUMNS))])
    for start in range(0, ROWS, PART):
        key, object_id = secrets.token_bytes(32), secrets.token_hex(16)
        file = folder / object_id
        columns = [np.arange(start, start + PART), *random.standard_normal((COLUMNS, PART), dtype=np.float32)]
        with file.open("wb") as out, PartWriter(out, from_arrow(schema), key=key, object_id=object_id) as writer:
            for batch in pa.table(columns, schema=schema).to_batches(131_072):
                writer.write(batch)
        parts.append(SealedPart(object_id=object_id, key=key, renamed={}, fetch=file.read_bytes, seek=opening(file)))
    return from_arrow(schema), parts


def batches_of(schema: Any, parts: Any) -> Any:
    from falaj.client.dataset_loaders import Fed, torch_batches
    from falaj.tables.arrays import GroupArrays

    features = [f"x{number}" for number in range(COLUMNS)]
    fed = Fed(features=features, target="id", batch_size=BATCH, shuffle=True, seed=7, content="benchmark")
    return torch_batches(GroupArrays(schema, parts), fed)


def timed(batches: Any) -> Any:
    """Rows in a second, with every batch on the GPU; and the ids in their order."""
    import torch

    from falaj.training.batches import ahead

    device, ids = torch.device("cuda"), []
    torch.cuda.synchronize()
    start = time.perf_counter()
    for features, target in ahead(batches, device, channels_last=False):
        assert features.is_cuda
        assert target.is_cuda
        ids.append(target)
        features.sum()
    torch.cuda.synchronize()
    return ROWS / (time.perf_counter() - start), torch.cat(ids).cpu()


def main() -> None:
    import torch

    with tempfile.TemporaryDirectory() as folder:
        schema, parts = sealed(Path(folder))
        for features, target in batches_of(schema, parts):  # some of them are filled from two pools
            assert features.is_pinned(), "features are not in pinned memory"
            assert target.is_pinned(), "the target is not in pinned memory"
        timed(batches_of(schema, parts))
        pinned, ids = timed(batches_of(schema, parts))
        plain = batches_of(schema, parts)
        plain._pinned = False
        unpinned, same = timed(plain)
        assert torch.equal(ids, same), "the order differs"
        assert torch.equal(ids.sort().values, torch.arange(ROWS)), "a row is missing, or came twice"
        half = batches_of(schema, parts)
        stepping = iter(half)
        for _ in range(100):
            next(stepping)
        rest = batches_of(schema, parts)
        rest.load_state_dict(half.state_dict())
        assert torch.equal(torch.cat([target for _, target in rest]), ids[100 * BATCH :]), "it did not go on where it stopped"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: pinned {pinned:,.0f} rows/s, not {unpinned:,.0f}")
    print(json.dumps({"loader_gpu_rows_s": round(pinned), "loader_gpu_pinned_x": round(pinned / unpinned, 2)}))


if __name__ == "__main__":
    for library in ("torch", "pyarrow", "numpy"):
        if importlib.util.find_spec(library) is None:
            sys.exit(f"There is no {library} here: nothing was measured.")
    if not importlib.import_module("torch").cuda.is_available():
        sys.exit("There is no CUDA here: nothing was measured.")
    main()
