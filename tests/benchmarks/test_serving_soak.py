"""Half a minute of the soak of predictions: every answer right, nothing lost but what was in a killed process's hands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "serving_soak.py"


@pytest.mark.heavy
def test_half_a_minute_of_updates_and_kills_gives_no_wrong_answer_and_loses_none():
    done = subprocess.run(
        [sys.executable, str(SOAK), "--minutes", "0.5"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["wrong"], told["failed"]) == (0, 0)
    assert told["answers"] > 1000
    assert told["updates"] > 5
    assert told["kills"] >= 2
