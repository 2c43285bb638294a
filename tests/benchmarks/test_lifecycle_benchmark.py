"""The benchmark of pipelines measures what it says: on a real platform, to what is on record; peers in their quickest way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # where its modules find each other

import lifecycle  # noqa: E402
import lifecycle_runs  # noqa: E402


def test_steps_of_every_kind_are_moved_on_and_a_run_goes_on_after_a_kill(tmp_path):
    rates = lifecycle_runs.steps_per_s(tmp_path / "steps", runs=3, steps=4, chain=10)
    assert set(rates) == {"many", "chain", "reads", "changes"}
    assert min(rates.values()) > 0
    found = lifecycle_runs.resumed(tmp_path / "resume", rounds=1)
    assert found["resume_s"] == found["resume_slowest_s"] == max(found["resume_wait_s"], found["resume_job_s"])
    assert min(found.values()) > 0


def test_a_peer_is_taken_in_the_quickest_of_its_ways():
    wal = {"in_threads": 300.0, "in_turn": 200.0, "chain": 150.0, "journal": "wal", "version": "3.4.0"}
    shipped = {"in_threads": 100.0, "in_turn": 90.0, "chain": 400.0, "journal": "delete", "version": "3.4.0"}
    assert lifecycle.quickest(wal) == {"best": 300.0, "chain": 150.0}
    assert lifecycle.quickest(wal, shipped) == {"best": 400.0, "chain": 400.0}


def test_what_is_out_of_bounds_is_told_and_the_last_line_is_json(capsys):
    lifecycle.told({"dbos_x": 0.8, "resume_s": 1.0, "steps_per_s": 5.0})
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("OUT OF BOUNDS") for line in lines[:3]] == [True, False, False]
    assert json.loads(lines[-1]) == {"dbos_x": 0.8, "resume_s": 1.0, "steps_per_s": 5.0}


@pytest.mark.parametrize("given", ["nothing", "steps,nothing"])
def test_a_part_that_it_does_not_know_is_named_before_anything_is_installed(given):
    command = [sys.executable, str(BENCHMARKS / "lifecycle.py"), "--only", given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "bench-lifecycle: no such part: nothing; there are steps, resume, cached, demo\n"
