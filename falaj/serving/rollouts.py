"""What the platform does by itself: canaries grow by their schedule or go back, and what breaks workers is put away.

`decide` is pure and works on a snapshot; `Rollouts` acts on it, one endpoint at a time, unless that changed meanwhile.
"""

from collections.abc import Sequence
from typing import Final

from falaj.base.clock import SECOND, Moment
from falaj.base.ids import ProjectId
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.ledger import recording
from falaj.governance.projects.store import project_by_id
from falaj.serving.changing import Growth, change_split, way_back
from falaj.serving.counts import Counts, counts_of, total
from falaj.serving.operations.endpoints import SPLIT_TRAFFIC, Split
from falaj.serving.operations.words import WHOLE, ChangeKind
from falaj.serving.splits import Arms, beside, everything_to, main_revision, read_arms, without
from falaj.serving.store import endpoints as store
from falaj.serving.store import planes as plane_store
from falaj.serving.store import states
from falaj.serving.store import windows as window_store
from falaj.serving.store.tables import Found
from falaj.serving.store.windows import COARSE, FINE
from falaj.serving.verdicts import Herald, Trial, Verdict
from falaj.serving.views import read_options, read_steps

AT_ONCE: Final = 100
_QUIET: Final = 30 * SECOND  # at least so long nobody calls, before that counts
_LONGEST_REASON: Final = 1000


@value
class Growing:
    """An endpoint with a canary that grows by itself, at `serial`. `back` is where a rollback goes; `trial` has the figures."""

    endpoint: str
    serial: int
    arms: Arms
    back: Arms
    growth: Growth
    trial: Trial


@value
class Broken:
    """A revision that a plane put away because it broke workers. `back` is where a rollback would go."""

    endpoint: str
    serial: int
    arms: Arms
    back: Arms
    revision: int
    why: str


@value
class Snapshot:
    growing: tuple[Growing, ...] = ()
    broken: tuple[Broken, ...] = ()


@value
class Act:
    """A new split for one endpoint that was seen at `serial`. `quarantine` is a revision that may not be used any more."""

    endpoint: str
    serial: int
    kind: ChangeKind
    arms: Arms
    reason: str
    growth: Growth | None = None
    quarantine: int = 0


def decide(snapshot: Snapshot, verdict: Verdict, now: Moment) -> tuple[Act, ...]:
    """One act for an endpoint at most: a broken revision comes before everything else."""
    acts = {broken.endpoint: _put_away(broken) for broken in reversed(snapshot.broken)}
    for growing in snapshot.growing:
        if growing.endpoint not in acts and (act := _grown(growing, verdict, now)) is not None:
            acts[growing.endpoint] = act
    return tuple(acts.values())


def _put_away(broken: Broken) -> Act:
    """The other live arms take over; where there is none, the split before. Where nothing is left, it stays: an endpoint that
    fails tells more than one that is gone."""
    back = broken.back if all(arm.revision != broken.revision for arm in broken.back) else ()
    arms = without(broken.arms, broken.revision) or back or broken.arms
    return Act(
        endpoint=broken.endpoint,
        serial=broken.serial,
        kind="quarantine",
        arms=arms,
        reason=broken.why,
        quarantine=broken.revision,
    )


def _grown(growing: Growing, verdict: Verdict, now: Moment) -> Act | None:
    growth = growing.growth
    judgement = verdict.judge(growing.trial)
    if judgement.word == "worse" and growing.back:
        return Act(
            endpoint=growing.endpoint,
            serial=growing.serial,
            kind="rollback",
            arms=growing.back,
            reason=judgement.reason or "A verdict found the canary worse.",
        )
    if judgement.word != "well" or growth.until is None or now < growth.until:
        return None
    shares = growth.steps.shares
    share = shares[growth.step]  # steps are counted from one, so this is the next
    last = share == WHOLE
    label = next((arm.label for arm in growing.arms if arm.revision == growth.canary), "")
    arms = everything_to(growth.canary, label) if last else beside(growing.arms, growth.canary, share, label)
    following = Growth(
        canary=growth.canary,
        steps=growth.steps,
        step=growth.step + 1,
        since=growth.since,
        until=None if last else Moment(now + growth.steps.seconds * SECOND),
    )
    reason = f"Step {following.step} of {len(shares)}: {share / 100:g} % for revision {growth.canary}."
    return Act(endpoint=growing.endpoint, serial=growing.serial, kind="step", arms=arms, reason=reason, growth=following)


class Rollouts:
    """Thread-safe; under a lease, so that one control plane at a time steps."""

    def __init__(self, database: Database, verdict: Verdict, herald: Herald | None = None) -> None:
        self._database, self._verdict, self._herald = database, verdict, herald

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        snapshot = self._database.read(lambda work: take_snapshot(work, now))
        acts = decide(snapshot, self._verdict, now)
        for act in acts:
            self._database.write(lambda work, act=act: apply(work, act, now, self._herald))  # type: ignore[misc]
        return len(snapshot.broken) == AT_ONCE


def take_snapshot(work: UnitOfWork, now: Moment) -> Snapshot:
    growing = [_growing(work, row, now) for row in store.growing(work, AT_ONCE) if states.is_served(work, row.id)]
    broken = [one for row in plane_store.broken(work, AT_ONCE) if (one := _broken(work, row)) is not None]
    return Snapshot(growing=tuple(growing), broken=tuple(broken))


def _growing(work: UnitOfWork, row: Found, now: Moment) -> Growing:
    arms, back = read_arms(row.arms), way_back(work, row.id)
    incumbent = main_revision(back)
    growth = Growth(
        canary=row.canary,
        steps=read_steps(row.steps),
        step=row.step,
        since=Moment(row.growing),
        until=None if row.next_step is None else Moment(row.next_step),
    )
    figures, called = _figures(work, row, now, [row.canary, incumbent])
    trial = Trial(
        project=row.project,
        endpoint=row.id,
        candidate=row.canary,
        incumbent=incumbent,
        since=row.growing,
        latency_ms=read_options(row.options).latency_ms,
        of_candidate=figures.get(row.canary, Counts()),
        of_incumbent=figures.get(incumbent, Counts()),
        quiet=now - called >= max(_QUIET, growth.steps.seconds * SECOND),
    )
    return Growing(endpoint=row.id, serial=row.serial, arms=arms, back=back, growth=growth, trial=trial)


def _figures(work: UnitOfWork, row: Found, now: Moment, revisions: Sequence[int]) -> tuple[dict[int, Counts], int]:
    """What each did since the canary began, in fine windows while those are kept, in minutes after that; and when the newest
    window ended in which there were calls. The first one may have calls of before."""
    span = FINE if now - row.growing < 3000 * SECOND else COARSE
    found: dict[int, list[Counts]] = {}
    called = 0
    for window in window_store.since(work, row.id, span, row.growing // (span * SECOND) * span * SECOND, revisions):
        found.setdefault(window.revision, []).append(counts_of(window))
        called = max(called, window.at + span * SECOND if window.requests else 0)
    return {revision: total(parts) for revision, parts in found.items()}, called


def _broken(work: UnitOfWork, row: Found) -> Broken | None:
    endpoint = store.find_by_id(work, row.endpoint)
    if endpoint is None:
        return None
    told = f" It said: {row.problem}" if row.problem else ""
    return Broken(
        endpoint=row.endpoint,
        serial=endpoint.serial,
        arms=read_arms(endpoint.arms),
        back=way_back(work, row.endpoint),
        revision=row.revision,
        why=f"It broke workers of plane {row.plane_name!r} again and again.{told}"[:_LONGEST_REASON],
    )


def apply(work: UnitOfWork, act: Act, now: Moment, herald: Herald | None = None) -> bool:
    """Nothing where the endpoint was changed since it was decided: the next round decides anew."""
    endpoint = store.hold_by_id(work, act.endpoint)
    if endpoint is None or endpoint.serial != act.serial:
        return False
    project = project_by_id(work, endpoint.project)
    if project is None:
        return False
    if act.quarantine and not store.quarantine(work, endpoint.id, act.quarantine, act.reason):
        return False
    facts = change_split(work, endpoint, kind=act.kind, arms=act.arms, by="", reason=act.reason, now=now, growth=act.growth)
    if act.quarantine:
        facts["quarantined"] = act.quarantine
    recording.append(
        work,
        operation=SPLIT_TRAFFIC,
        request=Split(project=project.name, endpoint=endpoint.name, arms=act.arms, reason=act.reason),
        identity=None,
        project=ProjectId(endpoint.project),
        now=now,
        request_id="",
        facts=facts,
    )
    if herald is not None and act.quarantine:
        herald.revision_was_put_away(work, project, endpoint, act.quarantine, act.arms, act.reason, now)
    elif herald is not None and act.kind == "rollback":
        herald.canary_went_back(work, project, endpoint, endpoint.canary, act.arms, act.reason, now)
    return True
