"""What lies in the folder of one attempt, written by another release or by nobody, is that attempt's trouble alone."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from falaj.base.clock import Moment
from falaj.jobs.engines import ray_letters
from falaj.jobs.engines.engine import Environment, Launch, Limits, Seen
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.engines.understanding import UNREADABLE
from falaj.jobs.running import folders
from falaj.jobs.scheduler.values import Seat, Shape

ENDED: dict[str, Any] = {
    "cause": "done",
    "code": 0,
    "words": "",
    "started": 1,
    "ended": 2,
    "used": {"cpu_seconds": 1.5},
}


@pytest.fixture
def engine(tmp_path: Path) -> LocalEngine:
    return LocalEngine(tmp_path / "jobs", Site(zone="here"))


@pytest.fixture
def attempts(engine: LocalEngine, tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "attempts"


def lay(attempts: Path, name: str, **files: object) -> None:
    place = attempts / name
    place.mkdir()
    (place / folders.LOCK).touch()
    for file, content in files.items():
        (place / f"{file}.json").write_text(content if isinstance(content, str) else json.dumps(content))


def looked(engine: LocalEngine) -> dict[str, Seen]:
    return {one.attempt: one for one in engine.look()}


def test_what_a_later_release_wrote_is_understood_as_far_as_it_can_be(engine: LocalEngine, attempts: Path) -> None:
    lay(attempts, "later", ended=ENDED | {"weather": "fine", "used": {"cpu_seconds": 1.5, "water_litres": 3}})
    lay(attempts, "earlier", ended={"ended": 2})
    lay(attempts, "stranger", ended=ENDED | {"cause": "moonstruck"})
    seen = looked(engine)
    assert (seen["later"].cause, seen["later"].code, seen["later"].used.cpu_seconds) == ("done", 0, 1.5)
    assert (seen["earlier"].cause, seen["earlier"].used.cpu_seconds) == ("lost", 0.0)
    assert seen["stranger"].cause == "lost"


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"ended": "late"}', '{"ended": 2, "used": {"cpu_seconds": "many"}}'])
def test_an_end_that_makes_no_sense_loses_that_attempt_alone(
    content: str, engine: LocalEngine, attempts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lay(attempts, "broken", ended=content)
    lay(attempts, "well", ended=ENDED)
    with caplog.at_level(logging.WARNING):
        seen = looked(engine)
        assert looked(engine) == seen
    assert (seen["broken"].cause, seen["broken"].words) == ("lost", UNREADABLE)
    assert seen["well"].cause == "done"
    assert [str(attempts / "broken" / folders.ENDED) in record.getMessage() for record in caplog.records] == [True]
    engine.forget("broken")
    assert "broken" not in looked(engine)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"sandbox": 7, "groups": 3}', '{"used": {"cpu_seconds": "many"}, "started": 1}']
)
def test_one_whose_keeper_is_gone_is_lost_whatever_it_left(content: str, engine: LocalEngine, attempts: Path) -> None:
    lay(attempts, "left", status=content, order=content)
    lay(attempts, "well", ended=ENDED)
    seen = looked(engine)
    assert (seen["left"].cause, seen["well"].cause) == ("lost", "done")


def test_one_whose_keeper_lives_goes_on_whatever_its_status_says(engine: LocalEngine, attempts: Path) -> None:
    lay(attempts, "kept", status='{"started": "soon"}', stop="{", order="{")
    lock = folders.take(attempts / "kept" / folders.LOCK)
    assert lock is not None
    try:
        assert looked(engine)["kept"].state == "preparing"
        engine.stop("kept", 0)
        assert (folders.read(attempts / "kept" / folders.STOP) or {})["until"] > 0
    finally:
        os.close(lock)


def test_other_things_among_the_folders_are_passed_over_and_jobs_still_start(engine: LocalEngine, attempts: Path) -> None:
    (attempts / "notes").write_text("not a folder")
    (attempts / "a b").mkdir()
    lay(attempts, "odd", order="[]", ended="{")
    (attempts / "nested").mkdir()
    (attempts / "nested" / folders.ENDED).mkdir()
    launch = Launch(
        attempt="new",
        job="job",
        project="project",
        name="job",
        command=("true",),
        shape=Shape(cpu_milli=100, memory_mib=64),
        seats=(Seat(node="here"),),
        environment=Environment(),
        limits=Limits(seconds=30),
        variables={},
    )
    engine.start(launch)
    seen = looked(engine)
    assert seen.keys() == {"new", "odd", "nested"}
    engine.stop("new", 0)
    while looked(engine)["new"].state != "ended":
        pass


def test_what_another_release_of_the_driver_says_is_understood_too() -> None:
    told = {"started": 1, "used": {"cpu_seconds": 1.5, "water_litres": 3}, "weather": "fine"}
    told |= {"ended": {"cause": "done", "code": 0, "words": "", "at": 2, "moon": "full"}}
    status = ray_letters.status_understood(json.dumps(told))
    assert (status.started, status.used.cpu_seconds) == (Moment(1), 1.5)
    assert status.ended is not None
    assert (status.ended.cause, status.ended.at) == ("done", Moment(2))
    assert ray_letters.status_understood("{}") == ray_letters.Status()
