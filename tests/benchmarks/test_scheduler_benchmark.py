"""The scheduler's benchmark measures what it says: every part runs, on traces small enough for a test."""

import csv
import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # where its modules find each other

import scheduler  # noqa: E402
import scheduler_philly  # noqa: E402
import scheduler_traces  # noqa: E402
from scheduler_philly import Shares  # noqa: E402

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment  # noqa: E402
from falaj.jobs.scheduler.playing import Arrival  # noqa: E402


def write(file: TextIO, rows: list[dict[str, object]]) -> None:
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)


@contextmanager
def zipped(path: Path) -> Iterator[TextIO]:
    with gzip.open(path, "wt") as file:
        yield file


def openb_pods() -> Iterable[dict[str, object]]:
    for number in range(60):
        gpus, milli = ((1, 1000), (1, 200), (0, 0))[number % 3]
        yield {"name": number, "cpu_milli": 1000, "memory_mib": 100, "num_gpu": gpus, "gpu_milli": milli, "gpu_spec": ""}


def philly_jobs() -> Iterable[dict[str, object]]:
    chance = random.Random(5)
    clusters = ("b436b2", "2869ce", "0e4a51", "e13805", "103959")
    for number in range(300):
        yield {
            "timestamp": f"2017-10-{1 + number // 48:02} {number // 2 % 24:02}:{number % 2 * 30 + chance.randrange(30):02}:00",
            "duration": chance.choice((60, 3600, 40_000)),
            "num_gpus": chance.choice((1, 4, 8, 16)),
            "gpu_time": 0,
            "cluster": clusters[number % len(clusters)],
        }


def muri_jobs() -> Iterable[dict[str, object]]:
    chance = random.Random(6)
    for number in range(40):
        yield {
            "job_id": number,
            "num_gpu": chance.choice((1, 8, 16, 32)),
            "submit_time": number * 60_000,
            "iterations": chance.choice((10, 1000, 100_000)),
            "model_name": chance.choice(("vgg16", "a2c", "bert")),
            "iteration_time": 100,
        }


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("openb", "muri", "philly"):
        (tmp_path / folder).mkdir()
    with (tmp_path / "openb" / "openb_node_list_gpu_node.csv").open("w") as file:
        write(file, [{"sn": n, "cpu_milli": 64_000, "memory_mib": 9999, "gpu": 4, "model": "T4"} for n in range(10)])
    with zipped(tmp_path / "openb" / "openb_pod_list_default.csv.gz") as file:
        write(file, list(openb_pods()))
    for trace in ("trace1", "trace3"):
        with (tmp_path / "muri" / f"{trace}.csv").open("w") as file:
            write(file, list(muri_jobs()))
    with zipped(tmp_path / "philly" / "philly_pollux.csv.gz") as file:
        write(file, list(philly_jobs()))
    monkeypatch.setattr(scheduler_traces, "TRACES", tmp_path)
    return tmp_path


FIGURES = {
    "openb": {"openb_unallocated_pct", "openb_decisions_per_s"},
    "muri": {"muri1_jct_x_srsf", "muri3_jct_x_srsf", "jct_unknown_x"},
    "philly": {"philly_queue_x_pool", "philly_shares_withheld"},
    "pending": {"pending_100k_ms"},
    "eta": {"eta_coverage"},
    "kueue": {"kueue_baseline_s"},
}


@pytest.mark.parametrize("part", list(scheduler.PARTS))
@pytest.mark.usefixtures("traces")
def test_every_part_ends_in_the_figures_it_is_asked_for(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["scheduler.py", "--quick", "--only", part])
    scheduler.main()
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(figures) == FIGURES[part]
    assert all(figure >= 0 for figure in figures.values())


def test_without_the_traces_it_says_where_they_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scheduler_traces, "TRACES", tmp_path)
    with pytest.raises(SystemExit, match=r"there are no traces at .*muri: this benchmark replays them"):
        scheduler.muri(True)


def test_a_job_wider_than_a_host_takes_whole_ones_and_every_gpu_it_asked_for():
    for gpus, tasks, each in ((1, 1, 1), (8, 1, 8), (16, 2, 8), (12, 3, 4), (24, 3, 8)):
        job = scheduler_traces.gpu_job("x", gpus, 0, "q", 0)
        assert (job.count, job.shape.gpus) == (tasks, each)


def test_a_share_withheld_for_longer_than_the_rules_allow_is_counted_once():
    jobs = {name: scheduler_traces.gpu_job(name, gpus, at, "mine", 0) for name, gpus, at in (("big", 8, 0), ("small", 1, 1))}
    shares = Shares({"mine": 4}, jobs, 90 * SECOND)
    for job in jobs.values():
        shares.came(job)
    for seconds in (0, 60, 91, 200):  # the big one would not fit into its share: it may wait; the small one may not
        shares.look(Moment(seconds * SECOND))
    assert shares.broken == [(0, "small")]
    shares.started("small")
    shares.look(Moment(HOUR))
    assert len(shares.broken) == 1


def test_what_a_queue_lends_comes_back_in_time_when_it_is_played():
    """A borrower fills every host; the owner's job comes and waits for its grace, and nothing counts as withheld."""
    queues, cohorts = scheduler_traces.philly_queues(("103959", "ed69ec"))
    borrower = [scheduler_traces.gpu_job(f"b{number}", 8, 0, "103959", 0) for number in range(4)]
    owner = scheduler_traces.gpu_job("owner", 8, 10 * MINUTE, "ed69ec", 0)
    arrivals = [Arrival(job=job, takes=HOUR) for job in (*borrower, owner)]
    queued = scheduler_philly.replay(arrivals, 4, queues, cohorts)
    assert (queued.jobs, queued.stops, queued.broken) == (5, 1, 0)
    assert queued.mean == pytest.approx((30 + (50 * 60 - 30)) / 5, rel=0.2)
