"""Reading ahead changes nothing but when things are made."""

import itertools
import threading

import pytest

from falaj.tables.ahead import ahead


def test_items_come_in_their_order():
    assert list(ahead(iter(range(100)))) == list(range(100))


def test_what_making_them_raises_is_raised_behind_those_that_were_made():
    def breaking():
        yield from (1, 2, 3)
        raise ValueError("planted")

    found = []
    with pytest.raises(ValueError, match="planted"):
        found.extend(ahead(breaking()))
    assert found == [1, 2, 3]


def test_whoever_stops_early_leaves_no_thread_and_few_items_made():
    made = itertools.count()
    items = ahead(iter(lambda: next(made), None))
    assert next(items) == 0
    items.close()
    assert next(made) < 10
    assert not [one for one in threading.enumerate() if one.name == "reading ahead"]
