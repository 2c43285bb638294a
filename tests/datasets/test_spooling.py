"""Bytes wait for a data worker in memory or sealed, and a worker never waits for bytes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import OutOfSpace, TooLarge
from falaj.datasets.workers import DataWorkers
from falaj.datasets.working.spooling import SpoolBounds, Spools
from falaj.keys.sealing import new_key
from falaj.tables.forms import Form

ROWS = 10_000  # some megabytes, which no pipe holds


def made(workers: DataWorkers, chunks: Iterator[bytes]) -> int:
    part = workers.make_part(chunks, form=Form(format="csv"), schema=None, key=new_key(), object_id="0" * 32)
    part.file.close()
    return part.facts.rows


def test_who_sends_slowly_keeps_no_worker_from_others(workers: DataWorkers) -> None:
    going_on, begun = threading.Event(), threading.Semaphore(0)

    def slow() -> Iterator[bytes]:
        yield b"id,pad\n" + (b"1," + b"x" * 1000 + b"\n") * ROWS
        begun.release()
        going_on.wait(60)
        yield b"2,y\n"

    with ThreadPoolExecutor(3) as pool:
        dawdling = [pool.submit(made, workers, slow()) for _ in range(3)]  # more than there are workers
        try:
            for _ in dawdling:
                assert begun.acquire(timeout=60)
            assert made(workers, iter([b"id\n1\n2\n"])) == 2
            assert not any(one.done() for one in dawdling)
        finally:
            going_on.set()
        assert [one.result(60) for one in dawdling] == [ROWS + 1] * 3
    assert workers._spools._held == 0


@given(chunks=st.lists(st.binary(max_size=50), max_size=30), memory=st.integers(0, 300))
def test_what_comes_out_is_what_came_in_wherever_it_waited(chunks: list[bytes], memory: int) -> None:
    spools = Spools(None, SpoolBounds(memory=memory))
    with spools.whole(chunks) as arrived:
        assert b"".join(arrived) == b"".join(chunks)
    assert spools._held == 0


def test_what_has_no_room_in_memory_lies_sealed_in_a_file_without_a_name(tmp_path: Path) -> None:
    spools = Spools(tmp_path, SpoolBounds(memory=0))
    file = spools.sealed_file()
    file.add(b"amal@example.ae" * 100_000)
    assert list(file.chunks()) == [b"amal@example.ae" * 100_000]
    file._file.seek(0)
    assert b"amal" not in file._file.read()
    assert list(tmp_path.iterdir()) == []
    file.close()


def test_who_breaks_off_sends_too_much_or_finds_the_disk_full_leaves_nothing(tmp_path: Path) -> None:
    def breaking() -> Iterator[bytes]:
        yield b"x" * 100
        raise ConnectionError

    spools = Spools(tmp_path, SpoolBounds(memory=1000, largest=5000))
    with pytest.raises(ConnectionError), spools.whole(breaking()):
        pass
    with pytest.raises(TooLarge, match="smaller ones"), spools.whole([b"x" * 900] * 6):
        pass
    full = Spools(tmp_path, SpoolBounds(memory=0, reserve=1 << 62))
    with pytest.raises(OutOfSpace), full.whole([b"x" * (2 << 20)]):
        pass
    with spools.whole([b"x" * 900]):  # of which nobody reads anything
        pass
    assert (spools._held, full._held) == (0, 0)
