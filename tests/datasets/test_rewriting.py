"""Merging by key and deleting rows: what is touched is made anew, the rest stays, and earlier versions keep theirs."""

from contextlib import closing
from pathlib import Path

import pytest

from falaj.base.errors import Conflict, Invalid
from falaj.datasets.operations import classes, writing
from falaj.datasets.workers import DataWorkers
from tests.datasets.platform import CSV, PROJECT, Platform, arrow

MORE = b"id,name,score\n4,dam,3.5\n"
ROWS = [(1, "well", 0.5), (2, "channel", 1.5), (3, "field", 2.5)]


def parts(platform: Platform, word: str = "current") -> set[str]:
    return {part.id for part in platform.grant(word).parts}


def test_a_merge_replaces_rows_of_the_same_key_and_adds_the_others(platform: Platform) -> None:
    platform.write(CSV, MORE)
    version = platform.write(b"id,name,score\n2,canal,9\n5,pump,5\n", mode="merge", keys=("id",))
    assert (version.mode, version.rows) == ("merge", 5)
    assert sorted(platform.rows()) == [ROWS[0], (2, "canal", 9.0), ROWS[2], (4, "dam", 3.5), (5, "pump", 5.0)]
    assert platform.rows("1") == [*ROWS, (4, "dam", 3.5)]
    assert len(parts(platform) & parts(platform, "1")) == 1  # the part that lost nothing


def test_a_merge_leaves_the_order_of_the_rows_that_stay(tmp_path: Path) -> None:
    """Whatever threads a worker has: which of two rows is the later one decides what a feature view says."""
    many = 400_000  # of several row groups
    with closing(DataWorkers(workers=1, memory_bytes=2 << 30, threads=2)) as workers:
        platform = Platform(tmp_path, None, workers)
        platform.write(arrow(id=list(range(many))))
        platform.write(arrow(id=[7, many]), mode="merge", keys=("id",))
        assert [id for (id,) in platform.rows()] == [*range(7), *range(8, many), 7, many]
        platform.database.close()


def test_a_merge_that_replaces_every_row_of_a_part_leaves_nothing_of_it(small: Platform) -> None:
    small.write(CSV, MORE)
    version = small.write(b"id,name,score\n4,weir,4\n", mode="merge", keys=("id",))
    assert (version.parts, version.rows) == (2, 4)
    assert small.rows() == [*ROWS, (4, "weir", 4.0)]


def test_keys_of_several_columns_and_without_a_value_are_compared_whole(small: Platform) -> None:
    small.write(arrow(a=[1, 1, None], b=["x", "y", "z"], v=[1, 2, 3]))
    small.write(arrow(a=[1, None], b=["y", "z"], v=[20, 30]), mode="merge", keys=("a", "b"))
    assert sorted(row[2] for row in small.rows()) == [1, 20, 30]


def test_a_key_that_comes_twice_is_refused_and_named_even_in_the_first_version(small: Platform) -> None:
    with pytest.raises(Invalid, match="id 7"):
        small.write(b"id\n7\n7\n", mode="merge", keys=("id",))
    small.write(CSV)
    with pytest.raises(Invalid, match="2 of the given rows have the same key"):
        small.write(b"id,name,score\n2,a,1\n2,b,1\n", mode="merge", keys=("id",))
    assert small.rows() == ROWS


def test_a_merge_by_a_column_that_is_none_is_refused(small: Platform) -> None:
    small.write(CSV)
    with pytest.raises(Invalid, match="no column 'depth'"):
        small.open("merge", keys=("depth",))


def test_rows_are_deleted_by_a_condition_and_where_it_is_unknown_they_stay(small: Platform) -> None:
    small.write(arrow(id=[1, 2, 3], flow=[5, None, 7]))
    version = small.write(mode="delete", where="flow > 5 -- all of them")
    assert (version.mode, version.rows) == ("delete", 2)
    assert small.rows() == [(1, 5), (2, None)]
    assert len(small.rows("1")) == 3


def test_a_deletion_can_leave_no_rows_and_keeps_the_columns(small: Platform) -> None:
    small.write(CSV)
    version = small.write(mode="delete", where="true")
    assert (version.rows, version.parts, [column.name for column in version.columns]) == (0, 0, ["id", "name", "score"])
    assert small.rows() == []
    small.write(MORE)
    assert small.rows() == [(4, "dam", 3.5)]


def test_a_condition_that_is_none_is_refused_and_changes_nothing(small: Platform) -> None:
    small.write(CSV)
    with pytest.raises(Invalid):
        small.write(mode="delete", where="no_such_column > 1")
    assert small.dataset().current == 1


def test_a_merge_or_deletion_that_something_came_before_is_a_conflict(small: Platform) -> None:
    small.write(CSV)
    merge, deletion = small.open("merge", keys=("id",)), small.open("delete", where="id = 1")
    small.send(merge, MORE)
    small.write(MORE)
    for write, pieces in ((merge, 1), (deletion, 0)):
        with pytest.raises(Conflict, match="came between"):
            small.commit(write, pieces)
    assert len(small.rows()) == 4


def test_a_renamed_column_is_merged_and_deleted_by_the_name_it_has_now(small: Platform) -> None:
    small.write(CSV)
    small.rename(id="number")
    small.write(b"number,name,score\n1,spring,1\n", mode="merge", keys=("number",))
    small.write(mode="delete", where="number = 2")
    assert sorted(small.rows()) == [(1, "spring", 1.0), ROWS[2]]


def test_a_deletion_takes_no_pieces(small: Platform) -> None:
    small.write(CSV)
    with pytest.raises(Invalid, match="no pieces"):
        small.send(small.open("delete", where="true"), MORE)


@pytest.mark.parametrize(
    "where",
    [
        "id = 1), false) UNION ALL BY NAME SELECT id, name || score AS name, score FROM before WHERE coalesce((id = 1",
        "id = 1), false) UNION ALL BY NAME SELECT * FROM before --",
        "error((SELECT string_agg(name, ' ') FROM before))",
        "id IN (SELECT id FROM before)",
        "id = 1; DROP VIEW before",
    ],
)
def test_a_condition_is_an_expression_and_no_piece_of_a_query(small: Platform, where: str) -> None:
    small.write(CSV)
    with pytest.raises(Invalid) as refused:
        small.write(mode="delete", where=where)
    assert "channel" not in str(refused.value)
    assert small.rows() == ROWS


def test_nobody_deletes_by_columns_that_he_may_not_see_or_is_told_of_rows(small: Platform) -> None:
    small.write(CSV)
    personal = (classes.Classified(column="name", kind="personal"),)
    small.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project=PROJECT, dataset="flights", columns=personal))
    writer = small.token(("read", "write"))

    def delete(where: str) -> None:
        write = small.open("delete", where=where, token=writer)
        request = writing.CommitWrite(project=PROJECT, dataset=write.dataset, write=write.id, pieces=0)
        small.call(writing.COMMIT_WRITE, request, writer)

    for where in ("CAST(name AS INT) = 1", "name = 'well'", "before::VARCHAR LIKE '%well%'"):
        with pytest.raises(Invalid, match="classified"):
            delete(where)
    with pytest.raises(Invalid, match="Why is not said") as refused:
        delete("CAST('x' || id AS INT) = 1")
    assert "x1" not in str(refused.value)
    assert small.rows() == ROWS
    delete("id = 1")
    assert small.rows() == ROWS[1:]
    small.write(mode="delete", where="name = 'channel'")  # who may see may also delete
    assert small.rows() == ROWS[2:]
