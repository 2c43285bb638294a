"""Trains again when the seasons change, and brings out what comes of that. An alert of drift starts it; it waits until it is
known which flights were late, trains, is held against the champion on days that neither has learnt from, asks, answers beside
the old model, and takes its place once that is decided.

falaj gate apply gates.toml
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
    views = ["carriers", "origins", "weather"]
    rows = falaj.steps.training_set("by-july-asked", into="by-july", time="asked", features=views)
    apart = falaj.steps.training_set("apart-asked", into="apart", time="asked", features=views)
    model = falaj.steps.run_gates(train(rows), "quality").after(apart)
    falaj.steps.approval(falaj.text("Shall version ", model.version, " answer a tenth of the calls?"))
    canary = falaj.steps.deploy(model, to="late", canary=10)
    held = falaj.steps.wait(seconds=3).after(canary)  # what breaks at once breaks for few
    test = falaj.steps.abtest(canary, guardrails=[{"of": "errors", "worst": 0.01}]).after(held)
    with falaj.when(test.state == "won"):
        falaj.steps.promote(model, reason=test.sentence)
    return model
