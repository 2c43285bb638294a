"""Differences between versions, held against Python's own sets of rows."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid, NotFound
from falaj.datasets.operations import comparing
from tests.datasets.platform import PROJECT, Platform, arrow

ROWS = st.dictionaries(
    st.integers(0, 6) | st.none(), st.tuples(st.integers(0, 2) | st.none(), st.sampled_from(["x", "y", None]))
)


def diff(platform: Platform, before: int | str, after: int | str, *keys: str) -> comparing.Difference:
    request = comparing.CompareVersions(project=PROJECT, dataset="flights", version=str(before), other=str(after), keys=keys)
    return platform.call(comparing.COMPARE_VERSIONS, request)


def numbers(found: comparing.Difference) -> tuple[int, int, int]:
    return found.rows_added, found.rows_removed, found.rows_changed


def table(rows: dict[Any, Any]) -> bytes:
    kinds = [("id", pa.int64()), ("a b", pa.int64()), ("c", pa.string())]
    listed = [{"id": key, "a b": values[0], "c": values[1]} for key, values in rows.items()]
    return arrow(**dict(zip(["id", "a b", "c"], pa.Table.from_pylist(listed, pa.schema(kinds)).columns, strict=True)))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=ROWS, after=ROWS)
def test_rows_are_counted_as_plain_python_counts_them(small: Platform, before: dict[Any, Any], after: dict[Any, Any]) -> None:
    first = small.write(table(before), mode="overwrite").version
    second = small.write(table(after), mode="overwrite").version
    changed = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    found = diff(small, first, second, "id")
    assert numbers(found) == (len(after.keys() - before.keys()), len(before.keys() - after.keys()), len(changed))
    each = {"a b": 0, "c": 1}
    counts = {name: sum(before[key][place] != after[key][place] for key in changed) for name, place in each.items()}
    assert {one.name: one.rows for one in found.changed} == {name: count for name, count in counts.items() if count}
    wholes = ({(key, *values) for key, values in rows.items()} for rows in (before, after))
    earlier, later = wholes
    assert numbers(diff(small, first, second)) == (len(later - earlier), len(earlier - later), 0)


def test_columns_that_came_went_and_widened_are_told(platform: Platform) -> None:
    platform.write(arrow(id=pa.array([1, 2], pa.int32()), gone=["a", "b"]))
    platform.write(arrow(id=[1, 2, 3], new=[1, 2, 3]), mode="overwrite")
    found = diff(platform, 1, "current", "id")
    assert [column.name for column in found.columns_added] == ["new"]
    assert [column.name for column in found.columns_removed] == ["gone"]
    assert [(one.name, one.before, one.after) for one in found.columns_retyped] == [("id", "int32", "int64")]
    assert (found.rows_before, found.rows_after, numbers(found)) == (2, 3, (1, 0, 0))
    assert len(platform.leaves("dataset.diff")[0]["facts"]["versions"]) == 2


def test_one_column_besides_the_key_is_enough(small: Platform) -> None:
    small.write(arrow(id=[1, 2], a=[1, 1]))
    small.write(arrow(id=[1, 2], a=[1, 7]), mode="overwrite")
    assert numbers(diff(small, 1, 2, "id")) == (0, 0, 1)


def test_a_version_that_equals_another_differs_in_nothing(small: Platform) -> None:
    small.write(arrow(id=[1]))
    small.write(arrow(id=[2]))
    small.restore("1")
    assert numbers(diff(small, 1, 3, "id")) == (0, 0, 0)


def test_keys_that_tell_no_rows_apart_and_columns_that_are_none_are_refused(small: Platform) -> None:
    small.write(arrow(id=[1, 1]))
    small.write(arrow(id=[2]))
    with pytest.raises(Invalid, match="not told apart by"):
        diff(small, 1, 2, "id")
    with pytest.raises(Invalid, match="no column 'depth'"):
        diff(small, 1, 2, "depth")
    with pytest.raises(NotFound, match="no version 9"):
        diff(small, 1, 9)
