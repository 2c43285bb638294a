"""When a job will start: certain where it is certain, wide where nobody knows, the same for the same facts."""

import math
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from falaj.base.clock import DAY, HOUR, MINUTE, Moment
from falaj.jobs.scheduler.facts import UNKNOWN, Facts, Recent, Took
from falaj.jobs.scheduler.forecasting import QUICK, Expected, forecast
from falaj.jobs.scheduler.guessing import Guess
from falaj.jobs.scheduler.values import Job, Rules, Running, Seat
from tests.jobs.scheduler.clusters import START, a_job, a_node, a_queue

NOW = Moment(START + HOUR)


def running(name: str, cards: tuple[int, ...] = tuple(range(8)), **more: object) -> Running:
    return Running(job=a_job(name, gpus=len(cards), **more), placement=(Seat(node="n0", cards=cards),), started=START)


def facts(*going: Running, waiting: tuple[Job, ...] = (), recent: Recent = UNKNOWN) -> Facts:
    return Facts(nodes=(a_node(),), queues=(a_queue(),), running=going, waiting=waiting, recent=recent)


def ended(*took: int, expected: int = 0) -> Recent:
    return replace(UNKNOWN, took=tuple(Took(queue="default", cards=8, expected=expected, took=one) for one in took))


def spread(found: Expected) -> int:
    assert found.earliest is not None
    assert found.latest is not None
    return found.latest - found.earliest


def test_where_there_is_room_it_starts_now_for_certain():
    found = forecast(facts(waiting=(a_job("mine"),)), "mine", NOW, Rules())
    assert found == Expected(earliest=NOW, middle=NOW, latest=NOW)


def test_what_can_never_start_is_not_foreseen():
    found = forecast(facts(waiting=(a_job("mine", gpus=9),)), "mine", NOW, Rules())
    assert found == Expected(earliest=None, middle=None, latest=None)


def test_the_same_facts_give_the_same_answer():
    known = facts(running("going"), waiting=(a_job("mine", at=NOW),))
    assert forecast(known, "mine", NOW, Rules()) == forecast(known, "mine", NOW, Rules())


def test_others_of_whom_it_is_known_how_long_they_take_make_a_narrow_interval():
    vague = facts(running("going"), waiting=(a_job("mine", at=NOW),))
    recent = replace(UNKNOWN, kin={"going": "sweep"}, learned={"sweep": (2 * HOUR,) * 9})
    sure = replace(vague, recent=recent)
    found = forecast(sure, "mine", NOW, Rules())
    assert found.middle is not None
    assert abs(found.middle - (START + 2 * HOUR)) < HOUR
    assert spread(found) < spread(forecast(vague, "mine", NOW, Rules()))


def test_what_people_declare_is_taken_as_it_has_proved_to_be():
    """Everybody says four times what it takes."""
    known = facts(running("going", duration=8 * HOUR), waiting=(a_job("mine", at=NOW),))
    found = forecast(replace(known, recent=ended(*[2 * HOUR] * 50, expected=8 * HOUR)), "mine", NOW, Rules())
    assert found.middle is not None
    assert found.middle < START + 3 * HOUR


def test_one_that_has_outlasted_all_others_is_thought_to_last_as_long_again():
    known = facts(running("going"), waiting=(a_job("mine", at=START),), recent=ended(*[MINUTE] * 100))
    late = Moment(START + 10 * DAY)
    found = forecast(known, "mine", late, Rules())
    assert found.middle is not None
    assert found.middle - late > DAY


def test_those_that_will_come_are_reckoned_with():
    """Ones of higher priority came every ten minutes for a day."""
    came = tuple(
        a_job(f"came-{number}", gpus=8, at=NOW - DAY + number * 10 * MINUTE, priority=1000, duration=9 * MINUTE)
        for number in range(144)
    )
    alone = facts(running("going", duration=2 * HOUR), waiting=(a_job("mine", gpus=8, at=NOW),))
    crowded = replace(alone, recent=replace(ended(*[9 * MINUTE] * 50, expected=9 * MINUTE), since=Moment(NOW - DAY), came=came))
    quiet, busy = (forecast(one, "mine", NOW, Rules(), effort=QUICK).latest for one in (alone, crowded))
    assert quiet is not None
    assert busy is None or busy > quiet


def test_many_that_wait_are_played_by_a_few_that_stand_for_them():
    """3,000 of an hour on eight cards: a job behind them all starts after about 375 hours, and that is found without playing
    every one."""
    recent = replace(UNKNOWN, kin={str(number): "sweep" for number in range(3000)}, learned={"sweep": (HOUR,) * 9})
    waiting = tuple(a_job(str(number), at=START + number) for number in range(3000))
    mine = a_job("mine", at=NOW)
    found = forecast(facts(waiting=(*waiting, mine), recent=recent), "mine", NOW, Rules(), effort=QUICK)
    assert found.middle is not None
    assert 0.6 < (found.middle - NOW) / (375 * HOUR) < 1.6


@pytest.mark.parametrize("ran", [0, MINUTE, 3 * HOUR, 30 * DAY])
def test_nobody_is_thought_to_take_less_than_it_has_taken_nor_more_than_it_may(ran: int):
    timeout = 40 * DAY
    guess = Guess(ended(*range(MINUTE, 5 * HOUR, 7 * MINUTE)), Random(1))
    drawn = [guess.takes(a_job("mine", timeout=timeout), ran) for _ in range(500)]
    assert all(ran < one <= timeout for one in drawn)


def test_guesses_follow_what_was_seen():
    seen = [round(HOUR * math.exp(Random(number).gauss(0, 1))) for number in range(500)]
    drawn = sorted(Guess(ended(*seen), Random(draw)).takes(a_job("x", gpus=8), 0) for draw in range(40))
    assert HOUR / 3 < drawn[20] < 3 * HOUR


def test_arrivals_come_as_often_and_in_order():
    came = tuple(a_job(str(number), at=START + number * MINUTE) for number in range(60))
    recent = replace(UNKNOWN, since=START, came=came)
    coming = list(islice(Guess(recent, Random(2)).to_come(NOW, 1), 600))
    moments = [one.job.submitted for one in coming]
    assert moments == sorted(moments)
    assert moments[0] >= NOW
    assert 0.8 < (moments[-1] - NOW) / (600 * MINUTE) < 1.25
    assert len({one.job.id for one in coming}) == 600
