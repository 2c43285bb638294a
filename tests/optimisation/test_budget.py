"""What a search may take, it may take once, however often its job is killed and tried again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from falaj.base.clock import MINUTE, SECOND
from falaj.base.ids import new_id
from falaj.client.optimising.job import Optimising
from falaj.client.optimising.workshop import Outcome
from falaj.database.work import Context
from falaj.jobs.operations.jobs import Resources, Spec
from falaj.jobs.store import attempts
from falaj.optimisation import attesting
from falaj.optimisation.jobs import spec_of
from falaj.optimisation.making.values import CannotBeMade
from falaj.optimisation.operations import optimisations, variants
from falaj.optimisation.operations.optimisations import OneOptimisation, Optimisation
from tests.optimisation.plans import plan
from tests.web import optimised
from tests.web.conftest import Site, running_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for site in running_site(tmp_path_factory.mktemp("budget")):
        site.project("fraud", "Card fraud")
        yield site


@pytest.fixture
def planned(site: Site) -> Optimisation:
    found = optimised.plan(site, optimised.register(site), seconds=600)
    optimised.describe(site, found)
    for name in ("int8", "fold", "half"):
        optimised.candidate(site, found, name)
    return shown(site, found)


def shown(site: Site, planned: Optimisation) -> Optimisation:
    found: Optimisation = site.call(optimisations.SHOW_OPTIMISATION, OneOptimisation(project="fraud", optimisation=planned.id))
    return found


def tried(site: Site, job: str, number: int, seconds: int | None, *, waited: int = 0) -> None:
    """A try of a job that waited, ran so many seconds and ended; with None it goes on."""

    def add(context: Context) -> None:
        planned = context.now - 100 * MINUTE
        row = {"job": job, "project": context.required_project.id, "number": number, "engine": "timers", "seats": "[]"}
        began = planned + waited * SECOND
        ended = {"ended": began + seconds * SECOND, "state": "ended"} if seconds is not None else {"state": "running"}
        told = {"id": new_id(context.now), "token": "t" * 32, "planned": planned, "started": began}
        attempts.add(context.work, [row | told | ended])

    optimised.within(site, add)


def test_what_earlier_tries_of_its_jobs_took_is_known_and_waiting_is_none_of_it(
    site: Site, planned: Optimisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attesting, "check", lambda context, job, optimisation: None)
    first, second = (new_id(site.platform.clock.now()) for _ in range(2))
    assert planned.spent == 0
    tried(site, first, 1, 70, waited=1000)
    tried(site, first, 2, 30, waited=50)
    named = {"project": "fraud", "optimisation": planned.id, "variant": "int8"}
    site.call(variants.BEGIN_VARIANT, variants.BeginVariant(**named, job=first))
    assert shown(site, planned).spent == 100
    tried(site, second, 1, 5)
    tried(site, second, 2, None)
    dropped = variants.RecordVariant(**named, job=first, outcome="dropped", reason="-")
    site.call(variants.RECORD_VARIANT, dropped)
    site.call(variants.BEGIN_VARIANT, variants.BeginVariant(**named | {"variant": "fold"}, job=second))
    assert shown(site, planned).spent == 105
    assert shown(site, planned).profile is not None  # what was told before is still there


def test_a_try_is_not_ended_before_its_search_has_judged() -> None:
    wished = Spec(command=("python",), resources=Resources(cpus=1, memory_mib=1024))
    assert spec_of(plan(seconds=900), wished).timeout == wished.timeout
    assert spec_of(plan(seconds=7 * 86_400), wished).timeout == 7 * 86_400 + 3600


def test_a_candidate_that_was_begun_three_times_is_dropped_and_nobody_says_that_it_was_for_memory(
    site: Site, planned: Optimisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is preempted begins what it was at once more, too."""
    monkeypatch.setattr(attesting, "check", lambda context, job, optimisation: None)
    asked = variants.BeginVariant(
        project="fraud", optimisation=planned.id, variant="half", job=new_id(site.platform.clock.now())
    )
    # It stands there as begun once.
    assert [site.call(variants.BEGIN_VARIANT, asked).granted for _ in range(3)] == [True, True, False]
    (half,) = (one for one in shown(site, planned).variants if one.name == "half")
    assert half.state == "dropped"
    assert "for want of memory, or because the job was killed, preempted or ran out of time" in half.reason


class Told:
    """A platform that remembers why candidates were dropped."""

    def __init__(self, plan: Optimisation) -> None:
        self.plan, self.dropped = plan, dict[str, str]()

    def shown(self) -> Optimisation:
        return self.plan

    def begin(self, variant: str) -> bool:
        return True

    def drop(self, variant: str, reason: str, **_: Any) -> None:
        self.dropped[variant] = reason

    def progress(self, share: float) -> None:
        pass

    def finish(self, remarks: tuple[str, ...]) -> Optimisation:
        self.remarks = remarks
        return self.plan


class Workshop:
    """Each candidate takes two minutes, and comes to nothing."""

    now, asked, most = 0.0, list[float](), list[float]()

    def __init__(self, order: Any) -> None:
        type(self).asked, type(self).most = [], []

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def make(self, steps: Any, seconds: float, most: float) -> Outcome:
        self.most.append(most)
        type(self).now += 120
        self.asked.append(seconds)
        return Outcome(made=None, problem="it came to nothing")


@pytest.mark.parametrize(("spent", "made"), [(0.0, 3), (250.0, 2), (400.0, 1), (590.0, 0)])
def test_a_try_has_what_earlier_ones_left(
    planned: Optimisation, monkeypatch: pytest.MonkeyPatch, spent: float, made: int
) -> None:
    monkeypatch.setattr("falaj.client.optimising.job.Workshop", Workshop)
    for name in ("_subject", "_order"):
        monkeypatch.setattr(Optimising, name, lambda *_: None)
    monkeypatch.setattr(Optimising, "_certify", lambda *_: 0)
    monkeypatch.setattr(Workshop, "now", 0.0)
    platform: Any = Told(replace(planned, spent=spent))
    assert Optimising(platform, lambda: Workshop.now).run() == 0
    assert len(Workshop.asked) == made
    assert Workshop.most == [max(60, 600 - spent - 120 * number) for number in range(made)]  # when all of it is over
    over = [name for name, reason in platform.dropped.items() if "600 seconds that the search may take were over" in reason]
    assert len(over) == 3 - made
    assert platform.remarks == (f"The search took {spent + 120 * made:.0f} seconds and certified 0 variants.",)


def test_a_search_whose_original_cannot_be_measured_ends_and_says_why(
    planned: Optimisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not tried again and again."""

    def describe(*_: Any) -> Optimisation:
        raise CannotBeMade("a row takes it 7.2 seconds; what takes more than 5 is not measured")

    monkeypatch.setattr(Optimising, "_subject", lambda *_: None)
    monkeypatch.setattr(Optimising, "_describe", describe)
    platform: Any = Told(planned)
    assert Optimising(platform, lambda: 0.0).run() == 0
    (remark,) = platform.remarks
    assert remark.endswith(
        "cannot be compared with anything: a row takes it 7.2 seconds; what takes more than 5 is not measured."
    )
