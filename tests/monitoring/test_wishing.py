"""What a monitor is asked to ignore: a slip is pointed out, and no number of long names makes that dear. And with a season,
windows that lie within an hour."""

from types import SimpleNamespace

import msgspec
import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import slot_of
from falaj.monitoring.wishing import _check_ignored, _check_season

LONG = "a" * 490


JANUARY, SECONDS = Moment(1_767_225_600_000_000), 1_000_000


def of_columns(*names: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(columns=msgspec.json.encode([{"name": name, "type": "float"} for name in names]).decode())]


def test_a_slip_is_pointed_out_and_an_answers_name_is_not():
    revisions = of_columns("amount", "age")
    with pytest.raises(Invalid, match="no column 'amuont' to ignore; it has 'amount'"):
        _check_ignored(("age", "amuont"), revisions)
    _check_ignored(("amount", "probabilities"), revisions)


def test_thousands_of_long_names_that_are_nearly_alike_are_not_compared():
    """It would take hours."""
    revisions = of_columns(*(f"{LONG}{place}" for place in range(10_000)), "amount")
    _check_ignored(tuple(f"{LONG}x{place}" for place in range(500)), revisions)
    _check_ignored(tuple(f"{'ab' * 45}{place}" for place in range(500)), of_columns(*(f"{LONG}{one}" for one in range(10_000))))


@pytest.mark.parametrize(
    ("window", "timezone", "nearest"),
    [
        (3600, "Asia/Kolkata", 1800),
        (2700, "UTC", 1800),
        (1800, "Asia/Kathmandu", 900),
        (3600, "Australia/Lord_Howe", 1800),  # apart by half an hour in winter alone
        (7, "Asia/Dubai", 6),
    ],
)
def test_windows_that_some_of_span_two_hours_by_the_zones_clock_are_refused(window: int, timezone: str, nearest: int):
    for season in ("hour", "week"):
        with pytest.raises(Invalid, match=f"take {nearest}, or another of which [0-9]+ is a multiple"):
            _check_season(Wishes(season=season, window=window, timezone=timezone), JANUARY)
        _check_season(Wishes(season=season, window=nearest, timezone=timezone), JANUARY)
    _check_season(Wishes(window=window, timezone=timezone), JANUARY)


@pytest.mark.parametrize("timezone", ["Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Berlin", "Asia/Dubai"])
@pytest.mark.parametrize("window", [60, 900, 1800, 3600])
def test_windows_that_are_allowed_have_all_their_rows_in_the_slot_of_their_beginning(window: int, timezone: str):
    try:
        _check_season(Wishes(season="week", window=window, timezone=timezone), JANUARY)
    except Invalid:
        return
    for place in range(0, 366 * 86_400 // window, 101):
        begin = JANUARY + place * window * SECONDS
        assert slot_of(begin, "week", timezone) == slot_of(begin + window * SECONDS - 1, "week", timezone)
