"""Made time: what is played takes as long as it is said to, keeps what it did, and comes out the same every time."""

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as some

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.jobs.scheduler.playing import Arrival, Happening, Play
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Cohort, Node, Queue, Rules, Running, Seat
from tests.jobs.scheduler.clusters import START, a_job, a_node, a_queue


def scheduler(*queues: Queue, nodes: int = 1, cards: int = 8, cohorts: tuple[Cohort, ...] = ()) -> Scheduler:
    hosts: list[Node] = [a_node(f"n{number}", cards=cards) for number in range(nodes)]
    return Scheduler(Rules(), nodes=hosts, queues=queues or [a_queue()], cohorts=cohorts)


def by_id(play: Play) -> dict[str, Happening]:
    return {one.job: one for one in play.happenings()}


def test_what_finds_room_runs_for_as_long_as_it_takes_and_the_next_begins_when_it_ends():
    play = Play(scheduler(cards=8))
    play.coming([Arrival(job=a_job("first", gpus=8), takes=HOUR), Arrival(job=a_job("second", gpus=8), takes=MINUTE)])
    end = play.run()
    happened = by_id(play)
    assert (happened["first"].started, happened["first"].ended, happened["first"].waited) == (START, START + HOUR, 0)
    assert (happened["second"].started, happened["second"].waited) == (START + HOUR, HOUR)
    assert end == START + HOUR + MINUTE


def test_starting_costs_time_every_time_and_is_no_work():
    urgent = a_job("urgent", gpus=8, at=START + 10 * MINUTE, priority=1000)
    play = Play(scheduler(), start_cost=lambda job: MINUTE)
    play.coming([Arrival(job=a_job("long", gpus=8), takes=HOUR), Arrival(job=urgent, takes=HOUR)])
    play.run()
    happened = by_id(play)
    assert happened["long"].stopped == 1
    # It did nine minutes of work in the first ten, is set up again, and has 51 left.
    assert happened["urgent"].ended == START + 10 * MINUTE + MINUTE + HOUR
    assert happened["long"].ended == happened["urgent"].ended + MINUTE + 51 * MINUTE
    assert happened["long"].waited == MINUTE + HOUR


def test_what_is_stopped_before_it_was_set_up_has_done_nothing():
    urgent = a_job("urgent", gpus=8, at=START + 2 * MINUTE, priority=1000)
    play = Play(scheduler(), start_cost=lambda job: 5 * MINUTE)
    play.coming([Arrival(job=a_job("long", gpus=8), takes=HOUR), Arrival(job=urgent, takes=HOUR)])
    play.run()
    happened = by_id(play)
    assert happened["long"].ended == happened["urgent"].ended + 5 * MINUTE + HOUR  # type: ignore[operator]


def test_one_that_takes_time_to_give_back_works_until_it_has_and_keeps_what_it_is_said_to_keep():
    urgent = a_job("urgent", gpus=8, at=START + 10 * MINUTE, priority=1000)
    play = Play(scheduler(), gives_back_after=lambda job: 30 * SECOND, keeps=lambda job, done: 0)
    play.coming([Arrival(job=a_job("long", gpus=8), takes=HOUR), Arrival(job=urgent, takes=HOUR)])
    play.run()
    happened = by_id(play)
    assert happened["urgent"].started == START + 10 * MINUTE + 30 * SECOND
    assert happened["long"].ended == happened["urgent"].ended + HOUR  # type: ignore[operator]


def test_an_elastic_job_with_half_its_tasks_takes_twice_as_long():
    play = Play(scheduler(nodes=1, cards=4))
    play.coming([Arrival(job=a_job("wide", gpus=1, count=8, least=2), takes=HOUR)])
    play.run()
    assert by_id(play)["wide"].ended == START + 2 * HOUR


def test_it_goes_on_from_what_runs_and_waits_already():
    made = scheduler()
    going = Running(job=a_job("going", gpus=8), placement=(Seat(node="n0", cards=tuple(range(8))),), started=START)
    stands = a_job("stands", gpus=8, at=START + 1)
    made.running(going)
    made.submitted(stands)
    now = Moment(START + MINUTE)
    play = Play(made)
    play.going(going, 2 * MINUTE, now)
    play.standing([Arrival(job=stands, takes=MINUTE)], now)
    assert [job.id for job in play.waiting()] == ["stands"]
    assert play.running() == [going]
    play.run()
    assert by_id(play)["stands"].started == now + 2 * MINUTE


def test_one_that_was_told_to_stop_gives_back_in_time_and_stands_in_line_again():
    made = scheduler()
    seat = Seat(node="n0", cards=tuple(range(8)))
    until = Moment(START + 2 * MINUTE)
    going = Running(job=a_job("going", gpus=8), placement=(seat,), started=START, stopping=until)
    made.running(going)
    play = Play(made)
    play.going(going, HOUR, Moment(START + MINUTE))
    play.run(until=until)
    assert by_id(play)["going"].stopped == 1


def test_there_may_be_no_end_of_arrivals():
    play = Play(scheduler())
    play.coming(Arrival(job=a_job(f"job-{number}", at=START + number * SECOND), takes=SECOND) for number in count())
    assert play.run(until=Moment(START + MINUTE)) <= START + MINUTE
    assert 60 <= len(play.happenings()) <= 62


def test_a_coarse_play_decides_less_often_and_ends_about_when_a_fine_one_does():
    arrivals = [Arrival(job=a_job(f"{number:03}", at=START + number * SECOND), takes=37 * MINUTE) for number in range(200)]
    fine, coarse = Play(scheduler()), Play(scheduler(), coarse=0.02)
    ends = []
    for play in (fine, coarse):
        play.coming(arrivals)
        ends.append(play.run() - START)
    assert coarse.rounds < fine.rounds
    assert abs(ends[1] - ends[0]) < 0.1 * ends[0]


@settings(max_examples=25, deadline=None)
@given(
    jobs=some.lists(
        some.tuples(
            some.integers(0, 300), some.integers(1, 8), some.integers(1, 900), some.sampled_from((0, 100)), some.booleans()
        ),
        max_size=25,
    )
)
def test_everything_ends_having_run_for_its_time_and_the_same_arrivals_come_to_the_same(
    jobs: list[tuple[int, int, int, int, bool]],
):
    cohorts = (Cohort(name="all", quotas={}),)
    queues = [a_queue(name, gpus=4, cohort="all") for name in ("one", "two")]
    arrivals = sorted(
        (
            Arrival(
                job=a_job(
                    f"{number:03}", gpus=gpus, at=START + at * SECOND, priority=priority, queue="one" if first else "two"
                ),
                takes=takes * SECOND,
            )
            for number, (at, gpus, takes, priority, first) in enumerate(jobs)
        ),
        key=lambda one: one.job.submitted,
    )
    played = []
    for _ in range(2):
        play = Play(scheduler(*queues, cohorts=cohorts))
        play.coming(arrivals)
        play.run()
        played.append(by_id(play))
    assert played[0] == played[1]
    for arrival in arrivals:
        one = played[0][arrival.job.id]
        assert one.ended is not None
        assert one.ended - one.submitted == one.waited + arrival.takes
