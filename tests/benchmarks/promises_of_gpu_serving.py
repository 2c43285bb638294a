"""Promises of the GPU benchmark's own logic, on a CPU: clients get their own answers, wrong ones and lost devices are told."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from falaj.runtimes.engine import Placement
from falaj.runtimes.errors import EngineFailed
from falaj.runtimes.fallback import Fallback
from falaj.runtimes.loading import load

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # where its modules find each other

import gpu_serving as benchmark  # noqa: E402


def _served() -> Any:
    """A tiny network, loaded from bytes, and rows for it."""
    network = benchmark.TINY["bert_base"]
    return load(network.files(), Placement()), benchmark.Rows(network, 16, "cpu")


def every_client_gets_its_own_answer_and_is_counted(folder: Path) -> None:
    engine, rows = _served()
    (found,) = asyncio.run(benchmark.serve(engine, rows, [8], 0.5))
    assert found.wrong == 0
    assert found.rows_s > 0
    assert 0 < found.p50_ms <= found.p99_ms
    assert 1 <= found.mean_batch <= 8
    assert engine.batches


def an_answer_to_another_row_is_found_to_be_wrong(folder: Path) -> None:
    engine, rows = _served()
    rows.expected = rows.expected + 1.0
    (found,) = asyncio.run(benchmark.serve(engine, rows, [8], 0.5))
    assert found.wrong > 0


def a_device_that_is_lost_is_told_with_what_went_on(folder: Path) -> None:
    engine, rows = _served()

    class Losable:
        """The same engine, until it is taken away."""

        inputs, outputs, batches, device = engine.inputs, engine.outputs, engine.batches, "gpu"
        is_lost = False

        def run(self, arrays):
            if self.is_lost:
                raise EngineFailed("gone")
            return engine.run(arrays)

        def close(self):
            pass

    losable = Losable()
    both = Fallback([lambda: losable, lambda: engine])
    break_it = lambda: setattr(losable, "is_lost", True)  # noqa: E731
    lost = asyncio.run(benchmark.lose(both, rows, "taken", before=0.3, after=0.5, break_it=break_it))
    assert (lost.device_before, lost.device_after) == ("gpu", "cpu")
    assert (lost.failed, lost.wrong) == (0, 0)
    assert lost.answered_before > 0
    assert lost.answered_after > 0
    assert 0 < lost.longest_gap_ms < 500


def quantiles_are_of_what_there_is(folder: Path) -> None:
    assert benchmark.quantile([], 0.5) == 0.0
    assert benchmark.quantile([1.0], 0.99) == 1.0
    assert benchmark.quantile(list(map(float, range(100))), 0.99) == 99.0


def the_last_line_is_one_json_object(folder: Path) -> None:
    command = [sys.executable, BENCHMARKS / "gpu_serving.py", "--tiny", "--cpu", "--seconds", "0.3", "--sizes", "1", "4"]
    done = subprocess.run([*command, "--clients", "4", "--only", "resnet50"], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["device"] == "cpu"
    assert told["resnet50"]["best"]["rows_s"] > 0
    assert told["resnet50"]["clients_4"]["wrong"] == 0
    assert told["resnet50"]["clients_4"]["share"] > 0


def no_library_is_needed_that_a_bare_machine_has_not(folder: Path) -> None:
    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cryptography", "jwt", "msgspec", "pydantic", "sqlalchemy", "httptools", "uvloop"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import gpu_serving
"""
    subprocess.run([sys.executable, "-c", code], cwd=BENCHMARKS, check=True)
