"""When a job will start: the present played on, many times, with durations and arrivals as uncertain as they are."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from falaj.base.clock import DAY, Moment
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
    """How much is played: jobs that wait, in all draws together, and moves of jobs in each."""

    jobs: int = 2_000
    moves: int = 3_000


QUICK: Final = Effort(jobs=450, moves=300)
COARSE: Final = 0.02  # of the time until then is how exactly a start is foreseen


@value
class Expected:
    """Four chances in five that it starts between `earliest` and `latest`; None where nobody can say."""

    earliest: Moment | None
    middle: Moment | None
    latest: Moment | None


def forecast(facts: Facts, job: str, now: Moment, rules: Rules, *, effort: Effort = Effort()) -> Expected:
    """Of a job that waits in `facts`. The same facts at the same moment give the same answer."""
    draws = DRAWS if len(facts.waiting) * DRAWS <= effort.jobs else FEW_DRAWS
    every = max(1, -(-len(facts.waiting) * draws // effort.jobs))
    found = [_start(facts, job, now, rules, Random(draw), every, effort.moves) for draw in range(draws)]
    starts = sorted(start for start in found if start is not None)
    outside = draws // 10  # on each side

    def at(place: int) -> Moment | None:
        return starts[place] if place < len(starts) else None

    return Expected(earliest=at(outside), middle=at(draws // 2), latest=at(draws - 1 - outside))


def _start(facts: Facts, job: str, now: Moment, rules: Rules, random: Random, every: int, moves: int) -> Moment | None:
    play, _ = played_on(facts, now, rules, random, every=every, keep=job)
    play.run(until=Moment(now + HORIZON), done=lambda: play.started(job) is not None or play.moves >= moves)
    return play.started(job)


def played_on(
    facts: Facts, now: Moment, rules: Rules, random: Random, *, every: int = 1, keep: str = ""
) -> tuple[Play, Sequence[Job]]:
    """The present, ready to be played on, and those of the waiting that are in it.

    Where many wait, one in `every` stands for that many and takes as much longer: the same work for fewer decisions.
    """
    guess = Guess(facts.recent, random)
    waiting = _thinned(facts.waiting, random, every, keep)
    play = Play(replace(facts, waiting=waiting).scheduler(rules), coarse=COARSE)
    for running in facts.running:
        ran = running.job.served + max(0, now - running.started)
        play.going(running, guess.takes(running.job, ran) - ran, now)
    play.standing([_arrival(one, guess, 1 if one.id == keep else every) for one in waiting], now)
    play.coming(guess.to_come(now, every))
    return play, waiting


def _arrival(job: Job, guess: Guess, every: int) -> Arrival:
    return Arrival(job=job, takes=every * (guess.takes(job, job.served) - job.served))


def _thinned(waiting: Sequence[Job], random: Random, every: int, keep: str) -> tuple[Job, ...]:
    if every == 1:
        return tuple(waiting)
    return tuple(job for job in waiting if job.id == keep or random.random() * every < 1)
