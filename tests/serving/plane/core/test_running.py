"""Whose model runs now, told through shared memory."""

import asyncio
import threading

from falaj.serving.plane.core.running import Running
from falaj.serving.plane.marks import INLINE, SINCE, THREAD, Marks, number_of
from tests.serving.plane.core.worker import Worker, endpoint, linear, played, tune_as_slow, until


def marked(**options):
    mark = Marks.make(1).place(0)
    return mark, played(mark=mark, **options)


def test_a_model_is_marked_while_it_runs_on_the_loop_and_not_afterwards():
    mark, play = marked()

    async def story(worker: Worker) -> None:
        seen = []
        worker._fault = lambda arrays: seen.append(list(mark.numbers))
        one = worker.revision(1, linear())
        await worker.serve(endpoint("scores", [one]))
        await worker.answered(worker.ask("scores", [[1] * 4]), worker.ask("scores", [[1] * 4] * 100))
        assert seen
        assert all(numbers[INLINE] == number_of(one.id) for numbers in seen)
        assert mark.numbers[INLINE] == 0

        def fault(arrays) -> None:
            raise ZeroDivisionError

        worker.engines[0]._fault = fault
        await worker.answered(worker.ask("scores", [[1] * 4]))
        assert mark.numbers[INLINE] == 0

    play(story)()


def test_a_model_is_marked_while_it_runs_in_a_thread_and_since_when():
    mark, play = marked(tune=tune_as_slow)

    async def story(worker: Worker) -> None:
        running, go_on = threading.Event(), threading.Event()

        def wait(arrays) -> None:
            running.set()
            go_on.wait(10)

        worker._fault = wait
        one = worker.revision(1, linear())
        await worker.serve(endpoint("scores", [one]))
        reply = worker.ask("scores", [[1] * 4])
        await asyncio.to_thread(running.wait, 10)
        assert (mark.numbers[INLINE], mark.numbers[THREAD]) == (0, number_of(one.id))
        assert mark.numbers[SINCE] > 0
        go_on.set()
        await worker.answered(reply)
        await until(lambda: not mark.numbers[THREAD])
        assert mark.numbers[SINCE] == 0

    play(story)()


def test_a_model_is_marked_while_it_is_loaded_without_a_limit_of_time():
    mark, play = marked()

    async def story(worker: Worker) -> None:
        seen = []
        one = worker.revision(1, linear())
        read = worker.open

        def watch(revision):
            seen.append(list(mark.numbers))
            return read(revision)

        await worker.core.adopt(worker.state(endpoint("scores", [one])), watch)
        assert [(numbers[THREAD], numbers[SINCE]) for numbers in seen] == [(number_of(one.id), 0)]
        assert mark.numbers[THREAD] == 0

    play(story)()


def test_of_several_threads_the_one_that_began_first_is_shown():
    running = Running(None)
    running.enter_thread(5)
    done = threading.Event()

    def other() -> None:
        running.enter_thread(6)
        assert running.numbers[THREAD] == 5
        done.wait(10)
        running.leave_thread()

    thread = threading.Thread(target=other)
    thread.start()
    while len(running._threads) < 2:
        pass
    running.leave_thread()
    assert running.numbers[THREAD] == 6
    done.set()
    thread.join()
    assert running.numbers[THREAD] == 0
