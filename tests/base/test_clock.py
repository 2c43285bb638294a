import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import DAY, SECOND, Moment, SystemClock

# The years that RFC 3339 can write.
moments = st.integers(-62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1).map(Moment)


@given(moments)
def test_a_moment_written_and_read_is_the_same_moment(moment):
    assert Moment.parse(str(moment)) == moment


@given(moments, moments)
def test_written_moments_sort_as_the_moments_do(one, other):
    assert (one < other) == (str(one) < str(other))


def test_an_offset_is_taken_into_account():
    assert Moment.parse("2026-11-15T13:30:00+04:00") == Moment.parse("2026-11-15T09:30:00Z")
    assert str(Moment(0)) == "1970-01-01T00:00:00.000000Z"
    assert Moment.parse("1970-01-02T00:00:00Z") == DAY


@pytest.mark.parametrize(
    "text",
    ["2026-11-15T09:30:00", "2026-11-15", "yesterday", "", "2026-13-01T00:00:00Z", "1799999999", "0001-01-01T00:00:00+14:00"],
)
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(ValueError):
        Moment.parse(text)


def test_the_clock_never_goes_back(monkeypatch):
    times = iter([5_000_000, 3_000_000, 7_000_000])
    monkeypatch.setattr("time.time_ns", lambda: next(times))
    clock = SystemClock()
    assert [clock.now(), clock.now(), clock.now()] == [5_000, 5_000, 7_000]
