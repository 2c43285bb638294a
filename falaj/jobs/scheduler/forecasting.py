"""When a job will start: the present played on, many times, with durations and arrivals as uncertain as they are."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.values import value
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.guessing import Guess
from falaj.jobs.scheduler.playing import Arrival, Play
from falaj.jobs.scheduler.values import Job, Rules

# Of so many draws, the start lies between the second and the last but one four times in five.
DRAWS: Final = 19
FEW_DRAWS: Final = 9  # and of so many, between the first and the last
HORIZON: Final = 366 * DAY  # what has not begun by then is not foreseen


@value
class Effort:
    """How much is played, in all draws together: jobs that wait, and jobs that come or start."""

    jobs: int = 2_000
    moves: int = 20_000


THOROUGH: Final = Effort()
QUICK: Final = Effort(jobs=450, moves=3_000)
COARSE: Final = 0.01  # of the time until then is how exactly a start is foreseen


@value
class Expected:
    """Four chances in five that it starts between `earliest` and `latest`; None where nobody can say."""

    earliest: Moment | None
    middle: Moment | None
    latest: Moment | None


def forecast(facts: Facts, job: str, now: Moment, rules: Rules, *, effort: Effort = THOROUGH) -> Expected:
    """Of a job that waits in `facts`. The same facts at the same moment give the same answer."""
    draws = DRAWS if len(facts.waiting) * DRAWS <= effort.jobs else FEW_DRAWS
    every = max(1, -(-len(facts.waiting) * draws // effort.jobs))
    found = [_start(facts, job, now, rules, Random(draw), every, effort.moves // draws) for draw in range(draws)]  # nosec B311 - for playing, not for secrets
    return _interval([one for one in found if one is not None], draws, now)


@value
class _Drawn:
    """`at` is when it started; or, where the play was cut off before it had, `by` is when that was."""

    at: Moment | None
    by: Moment


def _interval(found: Sequence[_Drawn], draws: int, now: Moment) -> Expected:
    """What never starts, and what would start after the play was cut off, comes later than all others, but not sooner than
    that. As coarse as the play is, so much wider is the interval."""
    outside = draws // 10  # on each side
    starts = sorted(one.at for one in found if one.at is not None)
    bounds = sorted(one.by for one in found)

    def at(moments: Sequence[Moment], place: int) -> Moment | None:
        return moments[place] if place < len(moments) else None

    earliest, middle, latest = at(bounds, outside), at(starts, draws // 2), at(starts, draws - 1 - outside)
    if latest is not None and latest > now:
        latest = Moment(latest + int((latest - now) * 2 * COARSE) + SECOND)
    if earliest is not None:
        earliest = Moment(max(now, earliest - int((earliest - now) * 2 * COARSE)))
    return Expected(earliest=earliest, middle=middle, latest=latest)


def _start(facts: Facts, job: str, now: Moment, rules: Rules, chance: Random, every: int, moves: int) -> _Drawn | None:
    """None where it would never start."""
    play, _ = played_on(facts, now, rules, chance, every=every, keep=job)
    horizon = Moment(now + HORIZON)
    last = play.run(until=horizon, done=lambda: play.started(job) is not None or play.moves >= moves)
    at = play.started(job)
    if at is None and play.moves < moves and last < horizon and play.is_over:
        return None
    return _Drawn(at=at, by=last if at is None else at)


def played_on(
    facts: Facts, now: Moment, rules: Rules, chance: Random, *, every: int = 1, keep: str = ""
) -> tuple[Play, Sequence[Job]]:
    """The present, ready to be played on, and those of the waiting that are in it.

    Where many wait, one in `every` stands for that many and takes as much longer: the same work for fewer decisions.
    """
    guess = Guess(facts.recent, chance)
    waiting = _thinned(facts.waiting, chance, every, keep)
    play = Play(replace(facts, waiting=waiting).scheduler(rules), coarse=COARSE)
    for running in facts.running:
        ran = running.job.served + max(0, now - running.started)
        play.going(running, guess.takes(running.job, ran) - ran, now)
    play.standing([_arrival(one, guess, 1 if one.id == keep else every) for one in waiting], now)
    play.coming(guess.to_come(now, every))
    return play, waiting


def _arrival(job: Job, guess: Guess, every: int) -> Arrival:
    return Arrival(job=job, takes=every * (guess.takes(job, job.served) - job.served))


def _thinned(waiting: Sequence[Job], chance: Random, every: int, keep: str) -> tuple[Job, ...]:
    if every == 1:
        return tuple(waiting)
    return tuple(job for job in waiting if job.id == keep or chance.random() * every < 1)
