"""Values of several lines, where they stand among others."""

import json

import pytest

from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal


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


def test_programs_read_every_letter_and_a_terminal_obeys_none(capsys: pytest.CaptureFixture[str]):
    document = {"words": "café \x9b31m \u202e \x1b]0;x\x07 \U000e0001 \n\t 雨"}
    Terminal(home=None, as_json=True).print_json(document)
    said = capsys.readouterr().out
    assert json.loads(said) == document
    assert said.rstrip("\n").isprintable()
    assert "café" in said
    assert "雨" in said
