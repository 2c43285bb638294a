"""What a monitor is asked to ignore: a slip is pointed out, and no number of long names makes that dear."""

from types import SimpleNamespace

import msgspec
import pytest

from falaj.base.errors import Invalid
from falaj.monitoring.wishing import _check_ignored

LONG = "a" * 490


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
