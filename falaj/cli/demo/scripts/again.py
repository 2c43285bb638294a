"""Trains again when the seasons change: an alert of drift starts it, and it waits until it is known which flights were late.

falaj pipeline apply again.py
falaj pipeline trigger set again seasons --on drift --about late
"""

import falaj


@falaj.step(memory="1GiB", experiment="late")
def train(rows: falaj.DatasetVersion) -> falaj.ModelVersion:
    from train_late import learn

    learn(f"{rows.dataset}@{rows.version}", trials=4)
    return falaj.register("late-arrival")


@falaj.pipeline
def again() -> object:
    falaj.steps.wait(event="truths")
    rows = falaj.steps.training_set("by-july-asked", into="by-july", time="asked", features=["carriers", "origins", "weather"])
    return train(rows)
