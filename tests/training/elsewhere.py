"""Promises that need torch are checked in an environment that has it, a file of them in one process: importing takes longest.

Each promise is a function of a temporary folder, run in a fork of its own; `promises_of` finds their names without torch.
"""

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = "kept"


def promises_of(module: str) -> list[str]:
    source = ROOT / Path(*module.split(".")).with_suffix(".py")
    return [one.name for one in ast.parse(source.read_text()).body if isinstance(one, ast.FunctionDef) and one.name[0] != "_"]


def check_elsewhere(module: str, seconds: float = 280, *, needed: str = "lightning", client: str = "mlflow3") -> dict[str, str]:
    """What became of each promise: kept, or how it was broken."""
    python = sys.executable
    if importlib.util.find_spec(needed) is None:
        # The stock clients' environment: torch, lightning, numpy and cryptography, and nothing of Falaj's but its files.
        python = str(Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / client / "bin" / "python")
    command = [python, "-m", "tests.training.elsewhere", module]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _checked(promise: str, module: object) -> str:
    """In a fork: whatever it leaves behind, threads or groups of processes, goes with it."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as told:
        if (child := os.fork()) == 0:
            code = 0
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    getattr(module, promise)(Path(folder))
            except BaseException:  # noqa: BLE001 - whatever it was is told
                traceback.print_exc(file=told)
                told.flush()
                code = 1
            os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told.seek(0)
        return KEPT if status == 0 else f"ended with {status}: {told.read()}"


if __name__ == "__main__":
    loaded = importlib.import_module(sys.argv[1])
    chosen = sys.argv[2:] or promises_of(sys.argv[1])
    print(json.dumps({promise: _checked(promise, loaded) for promise in chosen}))
