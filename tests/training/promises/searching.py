"""What the search promises of the samplers that need torch, and of going on with CMA-ES."""

from pathlib import Path

from falaj.training.search import Limits, tune


def the_gaussian_process_finds_the_bottom_of_a_bowl(folder: Path) -> None:
    found = tune(
        lambda one: (one["x"] - 2) ** 2 + (one["kind"] == "a"),
        {"x": "-10.0..10.0", "kind": "a,b"},
        sampler="gp",
        limits=Limits(trials=18),
        journal=folder / "gp",
    )
    assert found.best[0].values[0] < 0.1, found.best
    again = tune(
        lambda one: (one["x"] - 2) ** 2 + (one["kind"] == "a"),
        {"x": "-10.0..10.0", "kind": "a,b"},
        sampler="gp",
        limits=Limits(trials=19),
        journal=folder / "gp",
    )
    assert again.trials[:18] == found.trials
