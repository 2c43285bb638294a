"""A job's log: what was written is read, up to its bounds, and what is missing is said."""

import re
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from falaj.jobs.running.log import Log, read

DROPPED = re.compile(rb"\nfalaj: (\d+) bytes were dropped here: the log was larger than it may be\n")


def written(folder, pieces, mib=0):
    log = Log(folder, mib)
    for piece in pieces:
        log.write(piece)
    log.close()
    return log


@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(0, 300), st.integers(1, 300))
def test_any_part_can_be_read(pieces, offset, limit):
    whole = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), pieces)
        assert read(Path(folder), offset, limit) == (
            whole[offset : offset + limit],
            max(offset, min(len(whole), offset + limit)),
        )


@given(st.integers(1, 40), st.integers(1, 1 << 20))
def test_a_bounded_log_keeps_its_ends_whole(count, size):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        whole = b"".join((b"%08d" % number).ljust(size, b".") for number in range(count))
        log = written(folder, [whole[at : at + 100_000] for at in range(0, len(whole), 100_000)], mib=1)
        text, end = read(folder, 0, 1 << 30)
        assert end == len(whole)
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 1 << 20
        parts = DROPPED.split(text)
        assert log.is_flooded == (len(parts) > 1)
        if len(parts) == 1:
            assert text == whole
        else:
            head, missing, tail = parts
            assert (whole[: len(head)], whole[-len(tail) :]) == (head, tail)
            assert len(head) + int(missing) + len(tail) == len(whole)


def test_reading_goes_on_where_one_was_after_the_middle_went(tmp_path):
    log = Log(tmp_path, 1)
    log.write(b"a" * 300_000)
    text, offset = read(tmp_path, 0, 1 << 20)
    assert text == b"a" * 300_000
    log.write(b"b" * 4_000_000)
    log.close()
    text, end = read(tmp_path, offset, 1 << 22)
    missing = int(DROPPED.match(text)[1])
    assert end == 4_300_000
    assert DROPPED.sub(b"", text) == b"b" * (4_000_000 - missing)


def test_a_log_that_is_opened_again_goes_on(tmp_path):
    written(tmp_path, [b"one\n"])
    log = written(tmp_path, [b"two\n"])
    assert read(tmp_path, 0, 100) == (b"one\ntwo\n", 8)
    assert log.last_line() == "two"
