"""The soak, for a few seconds: it loads, kills, checks and tells; and what is wrong does not pass."""

import json
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"
LOSING = f"""
import runpy, sys
sys.argv = ["soak.py", "--minutes", "0.1", "--clients", "1"]
soak = runpy.run_path({str(SOAK)!r})
put = soak["Client"].put
def forget(client):
    put(client)
    client._blobs["0" * 32] = "never stored"
soak["Client"].put = forget
sys.exit(soak["main"]())
"""


def test_ten_seconds_of_load_and_kills_lose_nothing():
    done = subprocess.run(
        [sys.executable, str(SOAK), "--minutes", "0.17"], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["failed"], told["ledger_findings"]) == (0, 0)
    assert told["calls"] > 100
    assert told["refused"] > 5
    assert told["kills"] >= 2
    assert 20 < told["rss_start_mb"] <= told["rss_end_mb"] + 50


def test_an_effect_that_is_not_there_fails_it():
    done = subprocess.run([sys.executable, "-c", LOSING], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    # Either the client itself came back for it, or the reckoning at the end missed it.
    assert "0" * 32 in done.stderr or "never stored" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["failed"] > 0
