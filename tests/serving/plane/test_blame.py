"""Who is blamed for a worker's end: whoever it was, or nobody."""

import asyncio
import signal
import socket
from types import SimpleNamespace

import pytest

from falaj.serving.plane.channel import Setup
from falaj.serving.plane.crew import Crew
from falaj.serving.plane.marks import INLINE, SINCE, THREAD, THREADS, Marks

SETUP = Setup(key=b"", models="", answers="", certificate="", private_key="", body_bytes=0, memory_bytes=0, threads=0)
NAMES = {1: "inline", 2: "other"}
CRASH = -signal.SIGSEGV


@pytest.mark.parametrize(
    ("inline", "thread", "since", "threads", "hung", "loop_hung", "blamed"),
    [
        (1, 0, 0, 0, False, False, "inline"),
        (0, 2, 0, 1, False, False, "other"),
        (0, 2, 99, 1, False, False, "other"),
        (1, 2, 0, 1, False, False, ""),  # one ran while another was being loaded: either may have crashed
        (1, 2, 99, 1, False, False, ""),
        (0, 2, 99, 2, False, False, ""),  # two in threads
        (1, 2, 0, 1, True, True, "inline"),  # the loop hangs, a load does not hold it up
        (0, 2, 0, 1, True, True, "other"),
        (1, 2, 99, 2, True, False, "other"),  # the thread hangs, the others only happened to be busy
        (0, 0, 0, 0, False, False, ""),
    ],
)
def test_only_who_must_have_done_it_is_blamed(inline, thread, since, threads, hung, loop_hung, blamed):
    told: list[str] = []
    with socket.socket() as listener:

        async def story() -> None:
            crew = Crew(
                listener,
                SETUP,
                hangs_after=10,
                numbers=lambda: NAMES,
                on_broken=lambda revision, why: told.append(revision),
                on_did=lambda did: None,
                on_adopted=lambda: None,
                figures=lambda project, only: "",
                on_wish=lambda endpoint, loaded: asyncio.sleep(0, ""),
            )
            mark = Marks.make(1).place(0)
            for index, number in ((INLINE, inline), (THREAD, thread), (SINCE, since), (THREADS, threads)):
                mark.numbers[index] = number
            process = SimpleNamespace(pid=1)
            crew._blame(SimpleNamespace(mark=mark, process=process, hung=hung, loop_hung=loop_hung), CRASH)

        asyncio.run(story())
    assert [one for one in told if one] == ([blamed] if blamed else [])
