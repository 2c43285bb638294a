"""Values of several lines, where they stand among others."""

import pytest

from falaj.cli.layout import Layout


def test_further_lines_of_a_value_stand_below_its_first(capsys: pytest.CaptureFixture[str]):
    Layout().pairs([("id", "7"), ("tag recipe", "one\ntwo")])
    assert capsys.readouterr().out == "id          7\ntag recipe  one\n            two\n"


def test_a_row_of_a_table_is_one_line(capsys: pytest.CaptureFixture[str]):
    Layout().table(("name", "words"), [("a", "one\ntwo"), ("b", "three")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "WORDS"],
        ["a", "one", "two"],
        ["b", "three"],
    ]
