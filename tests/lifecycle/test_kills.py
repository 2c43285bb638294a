"""Kill -9 of the platform at every failpoint of pipelines: a run ends as if nothing had happened, and all that it brings about
happens exactly once."""

import random
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

import falaj.lifecycle
from falaj.base.errors import Unavailable
from falaj.client import dataset_writes
from falaj.client.dataset_pieces import PieceToSend
from falaj.datasets.operations.writing import OpenWrite
from falaj.jobs.operations.jobs import LIST_JOBS, ListJobs
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import LIST_RUNS, ListRuns, PipelineRun
from falaj.lifecycle.operations.triggers import SET_TRIGGER, SetTrigger, Trigger
from falaj.lifecycle.operations.words import Definition, Parameter
from tests.app.effects import World, come_back, verify_ledger
from tests.app.mortal import KILLED, MortalPlatform
from tests.jobs.mortal import failpoints_in
from tests.lifecycle.mortal import RUNS, Story, check_all, forget_the_dead
from tests.lifecycle.playing import PROJECT, keep, ref
from tests.lifecycle.test_giving_up import trains
from tests.servers.processes import free_ports

T = TypeVar("T")
# One after the other in the life of one run; visits are counted anew after each start.
DEATHS = (
    "pipelines.deciding",
    "pipelines.operation-called",
    "pipelines.deciding@2",
    "pipelines.operation-called@2",
    "pipelines.deciding@4",
    "pipelines.job-submitted",
    "pipelines.deciding@3",
)
TRIGGERED = "pipelines.triggered"
CALLED_OFF = "pipelines.called-off"
# How often each is come by at least in the life of one run.
VISITS = {"pipelines.deciding": 8, "pipelines.operation-called": 2 + RUNS, "pipelines.job-submitted": 1}


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else ""


@pytest.fixture
def platform(database: str, tmp_path: Path, no_process_survives: None) -> Iterator[MortalPlatform]:
    settings = {"FALAJ_DATABASE_URL": database} if database else {}
    (port,) = free_ports(1)  # that it comes back on: jobs that outlive it ask there
    made = MortalPlatform(tmp_path / "home", arguments=["--port", str(port)], **settings)
    try:
        yield made.start()
    finally:
        made.close()


def test_every_failpoint_of_pipelines_is_died_at():
    assert failpoints_in(falaj.lifecycle) == {name.partition("@")[0] for name in (*DEATHS, TRIGGERED, CALLED_OFF)}


def test_a_run_that_dies_again_and_again_does_everything_once(platform: MortalPlatform, database: str):
    story = Story(platform, "mortal", database)
    story.apply()
    platform.kill()
    for failpoint in DEATHS:
        assert not story.live(failpoint), f"{failpoint} was not hit"
    assert story.live()
    check_all(platform, story)


def test_a_trigger_that_dies_as_it_starts_a_run_starts_one(platform: MortalPlatform, database: str):
    write(platform)
    taken = Parameter(name="flights", kind="dataset", required=True)
    definition = Definition(parameters=(taken,), steps=(keep("taken", ref("parameters.flights.version")),))
    platform.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="nightly", definition=definition))
    wish = Trigger(kind="dataset", about="flights", parameters={"flights": "flights"})
    platform.call(SET_TRIGGER, SetTrigger(project=PROJECT, pipeline="nightly", trigger="new-rows", wish=wish))
    platform.restart(FALAJ_FAILPOINT=TRIGGERED)
    with suppress(Unavailable):  # it may be over before the answer is out
        write(platform)
    assert platform.wait_until_dead() == KILLED
    forget_the_dead(database)
    platform.launch(FALAJ_FAILPOINT=TRIGGERED)
    assert platform.wait_until_dead() == KILLED
    forget_the_dead(database)
    platform.start()
    (run,) = wait_for(lambda: runs_of(platform, "done"))
    assert (run.trigger, run.parameters) == ("new-rows", {"flights": {"dataset": "flights", "version": 2}})
    platform.kill()
    forget_the_dead(database)
    platform.start()
    write(platform)
    wait_for(lambda: runs_of(platform, "done")[1:])
    with platform.http() as http:
        starts = [leaf["facts"] for leaf in World(http).leaves_of("pipeline.run")]
        assert [one["run"] for one in starts] == [one.id for one in reversed(runs_of(platform))]
        verify_ledger(http)


def test_a_stopped_run_that_dies_as_it_calls_its_job_off_does_that_once(platform: MortalPlatform, database: str):
    definition = Definition(steps=(trains(),))
    platform.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline="nightly", definition=definition))
    platform.restart(FALAJ_FAILPOINT=CALLED_OFF)
    run = platform.call(declared.START_RUN, declared.StartRun(project=PROJECT, pipeline="nightly")).id
    one = declared.OneRun(project=PROJECT, run=run)
    wait_for(lambda: [step for step in platform.call(declared.SHOW_RUN, one).steps if step.job])
    with suppress(Unavailable):  # it may be over before the answer is out
        platform.call(declared.CANCEL_RUN, declared.Cancel(project=PROJECT, run=run))
    assert platform.wait_until_dead() == KILLED
    for _ in range(2):
        forget_the_dead(database)
        platform.launch(FALAJ_FAILPOINT=CALLED_OFF)
        assert platform.wait_until_dead() == KILLED
    forget_the_dead(database)
    platform.start()
    wait_for(lambda: runs_of(platform, "cancelled"))
    assert [job.state for job in platform.call(LIST_JOBS, ListJobs(project=PROJECT)).items] == ["cancelled"]
    with platform.http() as http:
        assert len(World(http).leaves_of("job.cancel")) == 1
        verify_ledger(http)


def write(platform: MortalPlatform) -> None:
    """One more version of a dataset."""
    with platform.client() as client:
        opening = OpenWrite(project=PROJECT, dataset="flights", create=True, key=secrets.token_hex(8))
        dataset_writes.write(client, opening, iter([PieceToSend(number=1, content=b"delay\n7\n")]))


def runs_of(platform: MortalPlatform, state: str = "") -> tuple[PipelineRun, ...]:
    found: tuple[PipelineRun, ...] = platform.call(LIST_RUNS, ListRuns(project=PROJECT, pipeline="nightly", state=state)).items
    return found


def wait_for(look: Callable[[], Collection[T]], seconds: float = 30.0) -> Collection[T]:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.1)
    return found


# The larger matrix.


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", VISITS)
def test_killed_at_every_visit_of(name: str, platform: MortalPlatform, database: str):
    """Run after run dies at one visit later, until one comes to its end before that."""
    stories: list[Story] = []
    is_over = False
    while not is_over:
        story = Story(platform, f"at-{len(stories) + 1}", database)
        stories.append(story)
        story.apply()
        platform.kill()
        is_over = story.live(f"{name}@{len(stories)}")
        assert is_over or story.live()
        check_all(platform, story)
    assert len(stories) > VISITS[name]


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_killed_at_random_moments_while_several_runs_go_on(platform: MortalPlatform, database: str):
    chance = random.Random()
    stories = [Story(platform, f"at-random-{number}", database) for number in range(8)]
    for story in stories:
        story.apply()
    left = list(stories)
    while left:
        deadline = time.monotonic() + chance.uniform(0.0, 1.5)
        while left and time.monotonic() < deadline:
            left = [story for story in left if not story.is_over()]
        platform.kill()
        forget_the_dead(database)
        come_back(platform)
    platform.kill()
    check_all(platform, *stories)
