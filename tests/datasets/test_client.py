"""Datasets as notebooks and jobs use them: written from memory, read by grant, and gone on with after a break."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from falaj.base.errors import Conflict, Corrupt, Invalid, Unavailable
from falaj.client import dataset_writes
from falaj.client.dataset_pieces import PieceToSend
from falaj.client.datasets import dataset, save_dataset
from falaj.datasets.operations.checks import SET_CHECKS, Check, SetChecks
from falaj.datasets.operations.writing import COMMIT_WRITE, WRITE_PART, OpenWrite
from tests.datasets.platform import PROJECT, Platform


class Line:
    """The way to the platform, which may break after so many calls of an operation."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.breaks: dict[str, list[bool]] = {}
        self.calls: list[str] = []

    def call(self, operation: Any, request: Any, *, chunks: Any = None) -> Any:
        self.calls.append(operation.name)
        breaking = self.breaks.get(operation.name)
        result = None if breaking and not breaking[0] else self._platform.call(operation, request, chunks=chunks)
        if breaking:
            breaking.pop(0)
            raise Unavailable("broken", delay=0)
        return result


@pytest.fixture
def line(small: Platform) -> Any:
    return Line(small)


def numbered(*contents: bytes) -> Iterator[PieceToSend]:
    return (PieceToSend(number=number, content=content) for number, content in enumerate(contents, 1))


ONE, TWO, THREE = b"id,name\n1,a\n", b"id,name\n2,b\n", b"id,name\n3,c\n"


def opening(**fields: Any) -> OpenWrite:
    return OpenWrite(project=PROJECT, dataset="flights", create=True, **fields)


def test_what_is_saved_is_read_again(line: Any) -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})
    version = save_dataset("flights", table, project=PROJECT, client=line)
    found = dataset("flights", project=PROJECT, client=line)
    assert (found.version, found.digest, len(found)) == (1, version.digest, 3)
    assert found.arrow() == table
    assert found.arrow(["name"]) == table.select(["name"])
    assert found.pandas()["id"].tolist() == [1, 2, 3]
    assert [batch.num_rows for batch in found.batches(rows=2)] == [2, 1]
    with pytest.raises(Invalid, match="no column 'depth'"):
        found.arrow(["depth"])


def test_a_frame_and_rows_are_saved_as_well(line: Any) -> None:
    table = pa.table({"id": [1, 2]})
    for data in (table.to_pandas(), [{"id": 1}, {"id": 2}], table.to_batches(), table.to_reader()):
        save_dataset("flights", data, mode="overwrite", project=PROJECT, client=line)
        assert dataset("flights", project=PROJECT, client=line).arrow() == table
    with pytest.raises(Invalid, match="nothing that rows can be taken from"):
        save_dataset("flights", "rows.csv", project=PROJECT, client=line)


def test_a_version_with_added_and_renamed_columns_is_read_as_one_table(small: Platform, line: Any) -> None:
    save_dataset("flights", pa.table({"id": pa.array([1], pa.int32())}), project=PROJECT, client=line)
    small.rename(id="number")
    save_dataset("flights", pa.table({"number": [2], "depth": [7]}), evolve=True, project=PROJECT, client=line)
    found = dataset("flights", project=PROJECT, client=line)
    assert found.arrow() == pa.table({"number": [1, 2], "depth": [None, 7]})
    assert found.arrow(["depth"]) == pa.table({"depth": [None, 7]})
    assert dataset("flights@1", project=PROJECT, client=line).arrow() == pa.table({"id": pa.array([1], pa.int32())})


def test_a_version_that_was_opened_stays_the_same(line: Any) -> None:
    save_dataset("flights", [{"id": 1}], project=PROJECT, client=line)
    found = dataset("flights", project=PROJECT, client=line)
    save_dataset("flights", [{"id": 2}], mode="overwrite", project=PROJECT, client=line)
    assert found.arrow().to_pylist() == [{"id": 1}]


def test_a_part_that_was_flipped_is_never_read(small: Platform, line: Any, tmp_path: Any) -> None:
    save_dataset("flights", [{"id": number} for number in range(1000)], project=PROJECT, client=line)
    found = dataset("flights", project=PROJECT, client=line)
    (file,) = tmp_path.joinpath("blobs").rglob(small.grant().parts[0].object)
    whole = bytearray(file.read_bytes())
    whole[60] ^= 1
    file.write_bytes(whole)
    for columns in (None, ["id"]):
        with pytest.raises(Corrupt, match="not what was sealed"):
            found.arrow(columns)


@pytest.mark.parametrize("done", [True, False])
def test_a_piece_whose_answer_got_lost_is_sent_again_and_counts_once(line: Any, done: bool) -> None:
    line.breaks[WRITE_PART.name] = [done, done]
    written = dataset_writes.write(line, opening(), numbered(ONE, TWO, THREE))
    assert (written.version.rows, written.sent) == (3, 3)


def test_who_was_killed_goes_on_where_he_was(small: Platform, line: Any) -> None:
    def killed() -> Iterator[PieceToSend]:
        yield from numbered(ONE, TWO)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataset_writes.write(line, opening(key="k"), killed())
    assert small.dataset().current == 0
    written = dataset_writes.write(line, opening(key="k"), numbered(ONE, TWO, THREE))
    assert (written.version.rows, written.skipped + written.sent) == (3, 3)
    assert written.skipped >= 1
    again = dataset_writes.write(line, opening(key="k"), numbered(ONE, TWO, THREE))
    assert (again.again, again.version) == (True, written.version)
    assert small.dataset().versions == 1


def test_an_answer_to_the_commit_that_got_lost_makes_no_second_version(small: Platform, line: Any) -> None:
    line.breaks[COMMIT_WRITE.name] = [True]
    with pytest.raises(Unavailable):
        dataset_writes.write(line, opening(key="k"), numbered(ONE))
    assert dataset_writes.write(line, opening(key="k"), numbered(ONE)).again
    assert small.dataset().versions == 1


def test_rows_that_changed_since_are_not_mixed_with_those_that_were_sent(small: Platform, line: Any) -> None:
    write = small.open(key="k")
    small.send(write, ONE)
    with pytest.raises(Conflict, match="begun with"):
        dataset_writes.write(line, opening(key="k"), numbered(TWO))
    assert dataset_writes.write(line, opening(key="k"), numbered(TWO)).version.rows == 1


def test_what_something_came_before_is_given_up_and_can_be_begun_anew(small: Platform, line: Any) -> None:
    small.write(ONE)

    def overtaken() -> Iterator[PieceToSend]:
        yield from numbered(TWO)
        small.write(THREE)

    with pytest.raises(Conflict, match="came between"):
        dataset_writes.write(line, opening(mode="overwrite", key="k"), overtaken())
    assert dataset_writes.write(line, opening(mode="overwrite", key="k"), numbered(TWO)).version.rows == 1


def test_what_breaks_a_check_is_not_saved_without_a_word(line: Any) -> None:
    save_dataset("flights", [{"id": 1}], project=PROJECT, client=line)
    rule = Check(name="few", kind="range", columns=("id",), most=5)
    line.call(SET_CHECKS, SetChecks(project=PROJECT, dataset="flights", checks=(rule,)))
    with pytest.raises(Conflict, match=r"flights@2 is in quarantine.*few: id must be at most 5 \(1 rows\)"):
        save_dataset("flights", [{"id": 9}], project=PROJECT, client=line)
    assert dataset("flights", project=PROJECT, client=line).version == 1
