"""What runs have in common and what differed."""

import math

from falaj.web.experiments.comparing import MOST_AXES, axes, rows, sentence
from tests.web.experiments.test_columns import run

NAMES = ("first", "second", "third")


def test_rows_that_differ_come_first_within_their_kind() -> None:
    found = rows([run({"a": "1", "b": "2"}, {"auc": 0.9}), run({"a": "1", "b": "3", "c": "4"}, {"auc": 0.9})])
    assert [(row.kind, row.name, row.differs) for row in found] == [
        ("params", "b", True),
        ("params", "c", True),
        ("params", "a", False),
        ("metrics", "auc", False),
    ]
    assert found[1].texts == (None, "4")


def test_values_that_look_alike_and_are_not_differ() -> None:
    assert rows([run({}, {"auc": 0.9000001}), run({}, {"auc": 0.9000002})])[0].differs
    assert not rows([run({}, {"auc": math.nan}), run({}, {"auc": math.nan})])[0].differs


def test_the_best_is_the_highest_or_the_lowest_as_the_name_says() -> None:
    first, second, third = (run({}, {"auc": auc, "loss": loss}) for auc, loss in ((0.8, 0.1), (0.9, 0.2), (math.nan, 0.3)))
    best = {row.name: row.best for row in rows([first, second, third])}
    assert best == {"auc": 1, "loss": 0}
    assert rows([first, first])[0].best is None


def test_the_sentence_says_what_differed_and_who_won() -> None:
    runs = [run({"depth": str(depth), "seed": "1"}, {"auc": auc}) for depth, auc in ((3, 0.8), (4, 0.9), (3, 0.7))]
    said = sentence(NAMES, rows(runs))
    assert said == "These 3 runs differ in depth (3, 4); 1 parameter is the same. second did best in auc."


def test_the_sentence_is_short_however_much_differs() -> None:
    runs = [run({f"p{index}": f"{'long' * 20}{side}" for index in range(50)}, {}) for side in "ab"]
    said = sentence(NAMES[:2], rows(runs))
    assert "and 46 more" in said
    assert len(said) < 500
    assert sentence(NAMES[:2], rows([run({}, {}), run({}, {})])) == "These 2 runs logged no parameters."
    same = rows([run({"a": "1"}, {}), run({"a": "1"}, {})])
    assert sentence(NAMES[:2], same) == "These 2 runs have the same 1 parameter."


def test_the_drawing_has_room_for_parameters_and_metrics() -> None:
    many = [
        run({f"p{index}": side for index in range(20)}, {f"m{index}": float(ord(side)) for index in range(20)}) for side in "ab"
    ]
    names = [axis.name for axis in axes(rows(many))]
    assert len(names) == MOST_AXES
    assert sum(name.startswith("m") for name in names) == 3
    few = [run({"p": str(side)}, {f"m{index}": side for index in range(20)}) for side in (1.0, 2.0)]
    assert [axis.name for axis in axes(rows(few))][:2] == ["p", "m0"]
    assert len(axes(rows(few))) == MOST_AXES
