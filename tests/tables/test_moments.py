"""Times as text: how the first of them are written says nothing about the others."""

import pyarrow as pa
import pytest

from falaj.base.errors import Invalid
from falaj.tables.moments import MOMENT, parsed

ZONED, BARE = "2026-03-01T10:00:00+04:00", "2026-03-01 10:00:00"


@pytest.mark.parametrize("texts", [[ZONED] * 200 + [BARE], [BARE] * 200 + [ZONED], [None] * 200 + [BARE, ZONED, ""]])
def test_each_time_counts_with_its_own_offset_or_else_with_the_zone_that_was_said(texts):
    found = parsed(pa.array(texts, pa.string()), "Asia/Dubai", name="at", first_row=1)
    assert found.type == MOMENT
    said = pa.scalar("2026-03-01T06:00:00Z").cast(MOMENT)
    assert found.to_pylist() == [said.as_py() if text else None for text in texts]


def test_a_time_without_a_zone_is_found_far_behind_those_with_one():
    with pytest.raises(Invalid, match="row 301 '2026-03-01 10:00:00', a time without a zone"):
        parsed(pa.array([ZONED] * 300 + [BARE]), None, name="at", first_row=1)


def test_clocks_of_utc_are_read_as_they_are():
    found = parsed(pa.array([BARE, None]), "UTC", name="at", first_row=1)
    assert found.equals(pa.array(["2026-03-01T10:00:00Z", None]).cast(MOMENT))
