"""What is read back of the words and figures that a training told of itself."""

import pytest

from falaj.training.profiling.shown import Choice, is_told, shown

TAGS = {
    "falaj.training.recipe.compiled": "True\nModel and loss become one program.",
    "falaj.training.recipe.micro_batch": "0\nA batch is taken whole.",
    "falaj.training.verdict": "input-bound: 41 % of each step waits for data\nloop-bound: 16 % of the time",
    "falaj.training.next": "The next start takes 6 loader workers.\nfalaj train … --cpus 7",
    "falaj.training.ask.cpus": "7\n6 loader workers would hide it\n2 6",
    "team": "fraud",
}
FIGURES = {
    "loss": 1.5,
    "falaj.training/step_seconds": 0.0325,
    "falaj.training/data_share": 0.41,
    "falaj.training/compute_share": 0.5897,
    "falaj.training/transfer_share": 0.0003,
    "falaj.training/rows_per_second": 62_910.4,
    "falaj.training/share_of_peak": 0.47,
}


def test_a_run_that_told_nothing_of_its_training_shows_nothing_of_it():
    assert shown({"team": "fraud"}, FIGURES) is None


def test_the_verdict_the_split_and_the_figures_are_in_words():
    found = shown(TAGS, FIGURES)
    assert found.verdicts == ["input-bound: 41 % of each step waits for data", "loop-bound: 16 % of the time"]
    assert not found.fine
    assert found.next == ["The next start takes 6 loader workers."]
    assert found.commands == ["falaj train … --cpus 7"]
    assert found.shares == {"data": 0.41, "compute": 0.5897}
    assert found.facts == [("A step", "32.5 ms"), ("Rows", "62,910/s"), ("Of the peak", "47 %")]


def test_each_choice_has_its_value_and_its_reason():
    assert shown(TAGS, {}).choices == [
        Choice(name="compiled", value="yes", why="Model and loss become one program."),
        Choice(name="micro batch", value="whole batches", why="A batch is taken whole."),
    ]


def test_a_training_that_nothing_is_in_the_way_of_is_fine():
    assert shown({"falaj.training.verdict": "compute-bound: 84 % of each step computes"}, {}).fine


def test_a_training_s_tags_are_told_from_those_of_its_author():
    assert [is_told(name) for name in TAGS] == [True, True, True, True, True, False]


def test_absurd_figures_stretch_no_page():
    absurd = {"data_share": float("inf"), "compute_share": 1e308, "step_seconds": float("nan"), "gpu_watts": 1e308}
    found = shown(
        TAGS, {f"falaj.training/{name}": number for name, number in absurd.items()} | {"falaj.training/cpus_busy": -1.0}
    )
    assert found.shares == {"data": 1.0, "compute": 1.0}
    assert found.facts == []


@pytest.mark.parametrize(
    "line",
    [
        "falaj tune resume evil --yes --project victim",
        "falaj train x --cpus 7",
        "The next start takes `falaj tune resume evil --yes`.",
        "The next start takes falaj tune resume evil --yes.",
        "Run this: falaj job retry 0",
        "The next start takes 6 \u202e loader workers.",
    ],
)
def test_nobody_puts_a_command_into_the_mouth_of_a_training(line: str):
    """Whoever may write the run's tags could: people copy what stands there."""
    found = shown({"falaj.training.next": line, "falaj.training.ask.cpus": "7 --yes\n\n"}, {})
    assert (found.next, found.commands) == ([], [])
