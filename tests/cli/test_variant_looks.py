"""What a search came to, as a terminal shows it."""

from dataclasses import replace

import pytest

from falaj.cli.layout import Layout
from falaj.cli.variant_looks import chart, outcome
from tests.optimisation.plans import made, plan
from tests.web.optimised import measures


def test_it_says_what_predictions_cost_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    outcome(Layout(), plan(baseline=replace(measures(), cost=0.04), variants=made("int8")), "shop")
    said = capsys.readouterr().out
    assert "on one thread, 0.04 for a million predictions." in said
    (row,) = (line for line in said.splitlines() if line.startswith("int8"))
    assert "0.01" in row.split()
    assert "GPU" not in said


def test_it_says_what_ran_where_unless_all_ran_on_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    program, fold = made("torch-program-bf16", "fold")
    on_gpu = replace(program, measures=replace(measures(6.0), device="gpu"))
    on_cpu = replace(fold, measures=replace(measures(1.1), device="cpu"))
    original = replace(measures(), device="cpu")
    outcome(Layout(), plan(target="gpu", baseline=original, variants=(on_gpu, on_cpu)), "shop")
    said = capsys.readouterr().out
    assert "Measured: torch-program-bf16 on the GPU; the original, fold on the processor." in said
    outcome(Layout(), plan(baseline=original, variants=(on_cpu,)), "shop")
    assert "Measured:" not in capsys.readouterr().out


def test_every_letter_of_the_chart_is_one_variant_however_many_there_are() -> None:
    (one,) = made("one")
    many = [replace(one, name=f"v{number}", on_front=number % 20 == 7) for number in range(40)]
    told = chart(many)[-3]
    letters = [word for word in told.split() if len(word) == 1]
    assert len(letters) == len(set(letters)) == 27
    assert all(letter.isascii() and (letter.isalpha() or letter == ".") for letter in letters)
    assert [letter for letter in letters if letter.isupper()] == ["A", "B"]
    assert told.startswith("  A v7   B v27   c v0")
    assert told.endswith(". 14 more")
