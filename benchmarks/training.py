"""What training with Falaj costs and brings on CPUs: `make bench-training`. The last line is JSON.

Each part is a program of its own, in the environment of the stock clients (torch, Optuna, LightGBM), one after the other:

overhead_pct          a `Session` against the same bare loop, by CPU time of the training's thread; at most 1
checkpoint_stall_pct  a sealed, asynchronous checkpoint every 10 s; at most 3
loader_busy_pct       the share of a step that does not wait for data, image-like input; at least 97
tune_x                trials/s of a trivial objective, against bare Optuna with journal storage; at least 0.5
classic_cores_x       LightGBM through Falaj against LightGBM alone; at least 0.97
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final[dict[str, tuple[str, float, float]]] = {  # the figure, and between what it should be
    "training_overhead": ("overhead_pct", -math.inf, 1),
    "training_checkpoint": ("checkpoint_stall_pct", -math.inf, 3),
    "training_loader": ("loader_busy_pct", 97, math.inf),
    "training_tune": ("tune_x", 0.5, math.inf),
    "training_classic": ("classic_cores_x", 0.97, math.inf),
}
_PATIENCE: Final = 1200  # seconds for one part


def measured(part: str, python: Path) -> dict[str, Any]:
    """The last line of the part; what it writes before is shown as it comes."""
    command = [str(python), str(ROOT / "benchmarks" / f"{part}.py")]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT) as running:
        assert running.stdout is not None
        lines = []
        for line in running.stdout:
            print(f"{part}: {line}", end="", flush=True)
            lines.append(line)
        if running.wait(_PATIENCE) or not lines:
            raise SystemExit(f"{part} ended with {running.returncode}")
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    clients = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients"))
    subprocess.run([ROOT / "scripts" / "make_client_venvs.sh", "mlflow3"], check=True)
    found: dict[str, Any] = {}
    for part in wanted:
        name, least, most = PARTS[part]
        found[name] = measured(part, clients / "mlflow3" / "bin" / "python")[name]
        print(f"{name} {found[name]}: {'as it should be' if least <= found[name] <= most else 'OUT OF BOUNDS'}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
