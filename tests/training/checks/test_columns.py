"""Tables of any make."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.training.checks.columns import column, joined, table


def test_values_become_numbers_categories_or_moments():
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert column("a", [1, None, 3]).kind == "number"
    assert column("a", [Decimal("1.5"), Decimal(2)]).values.tolist() == [1.5, 2.0]
    assert column("a", [True, False]).kind == column("a", ["x", None]).kind == "category"
    assert column("a", np.array(["2026-01-01", "NaT"], dtype="datetime64[D]")).missing.tolist() == [False, True]
    assert column("a", [day, None]).values[0] == column("a", np.array(["2026-01-01"], dtype="datetime64[s]")).values[0]
    assert column("a", [float("nan"), "x"]).missing.tolist() == [True, False]


def test_arrays_dictionaries_and_pairs_are_tables():
    rows = np.array([(1, "a"), (2, "b")], dtype=[("number", int), ("text", "U1")])
    assert list(table(rows)) == ["number", "text"]
    assert list(table((np.zeros((2, 2)), [0, 1]))) == ["column 0", "column 1", "target"]
    with pytest.raises(Invalid, match="differ in length"):
        table({"a": [1], "b": [1, 2]})
    with pytest.raises(Invalid, match="rows and columns"):
        table(np.zeros(3))
    with pytest.raises(Invalid, match="name the target otherwise"):
        table(({"target": [1]}, [1]))


def test_numbers_and_texts_of_one_name_are_compared_as_texts():
    both = joined(column("a", [1, 2]), column("a", ["1", None]))
    assert both.codes().tolist() == [0, 1, 0, -1]
