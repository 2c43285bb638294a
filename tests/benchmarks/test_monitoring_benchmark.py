"""The benchmark of monitoring measures what it says: the same rows for all, verdicts by the rule that ships, both set alike."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # where its modules find each other

import monitoring  # noqa: E402
import monitoring_check  # noqa: E402
import monitoring_data  # noqa: E402
import monitoring_limit  # noqa: E402
import monitoring_streams  # noqa: E402
import monitoring_taps  # noqa: E402
from serving_peers.generators import Load  # noqa: E402

from falaj.monitoring.deciding import Rule  # noqa: E402


def test_ours_and_the_limit_look_at_every_column_of_files_that_differ_by_chance_alone(tmp_path):
    monitoring_data.files(tmp_path, 3000)
    before, after = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("before", "after"))
    assert (before.num_rows, before.num_columns) == (after.num_rows, after.num_columns) == (3000, monitoring_data.FEATURES)
    assert not before.column("f0").equals(after.column("f0"))
    found = monitoring_check.check(tmp_path)
    assert (found["columns"], found["drifting"]) == (100, 0)
    limit = monitoring_limit.count(tmp_path)
    assert (limit["columns"], limit["rows"]) == (100, 3000)


def test_a_quiet_stream_raises_nothing_and_one_that_moves_is_called(tmp_path):
    monitoring_data.stream(tmp_path, 5, 4, 200)
    assert monitoring_streams.alarms(tmp_path) == {"windows": 4, "alarms": 0, "without_floor": 0}
    moved = monitoring_data.rows_of(np.random.default_rng(6), 200)
    place = moved.column_names.index("f3")
    numbers = moved.column("f3").to_numpy() + 2
    monitoring_data.write(tmp_path / "windows.parquet", iter([moved.set_column(place, "f3", [numbers])]))
    assert monitoring_streams.alarms(tmp_path) == {"windows": 1, "alarms": 1, "without_floor": 1}


def test_rows_until_a_shift_is_called_are_counted_from_where_it_began():
    random = np.random.default_rng(7)
    found = [monitoring_streams.until_called(random, 50, 3.0, Rule(floor=0.05, one_in=1000)) for _ in range(20)]
    assert all(0 < rows <= 150 for rows in found)


def test_a_budget_that_is_really_kept_is_smaller_than_the_one_that_is_promised(monkeypatch):
    monkeypatch.setattr(monitoring_streams, "_AT_ONCE", 100)
    monkeypatch.setattr(monitoring_streams, "_WATCHED", 40)
    assert 1 <= monitoring_streams.calibrated(np.random.default_rng(8), 200, 1000) < 1000


def load(rate: float, server: float) -> Load:
    return Load(
        requests=int(rate), seconds=1.0, p50_ms=1.0, p90_ms=1.0, p99_ms=1.0, max_ms=1.0, errors=0, non2xx=0, server=server
    )


def test_overhead_is_the_median_of_pairs_and_per_core_what_others_took_is_left_out():
    pairs = [(load(1000, 1.0), load(960, 1.0)), (load(1000, 1.0), load(970, 1.0)), (load(1000, 1.0), load(500, 0.5))]
    assert monitoring_taps.overhead(pairs) == pytest.approx(4.0)
    assert monitoring_taps.overhead_per_core(pairs) == pytest.approx(3.0)


def test_what_is_out_of_bounds_is_told_and_the_last_line_is_json(capsys):
    monitoring.told({"rows_per_s_x": 19.0, "limit_x": 1.0, "rows": 5.0})
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("OUT OF BOUNDS") for line in lines[:3]] == [True, False, False]
    assert json.loads(lines[-1]) == {"rows_per_s_x": 19.0, "limit_x": 1.0, "rows": 5.0}


def test_a_part_that_it_does_not_know_is_named_before_anything_is_installed():
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "monitoring.py"), "--only", "drift,nothing"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "bench-monitoring: no such part: nothing; there are drift, taps, alarms, delay\n"
