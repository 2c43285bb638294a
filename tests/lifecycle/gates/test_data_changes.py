"""A change of the data starts the gates of the version that is in use, as a change of the code does in a CI system."""

from falaj.lifecycle.operations import pipelines, triggers
from falaj.lifecycle.operations.triggers import Trigger
from tests.lifecycle.gates.hall import CSV, MODEL, WHOLE, Hall, put_rows
from tests.lifecycle.playing import PROJECT, Stage, call


def test_new_rows_start_a_pipeline_that_runs_gates(small: Stage) -> None:
    hall = Hall(small, versions=1)
    hall.apply(WHOLE)
    hall.promote(1)
    put_rows(hall, "customers", CSV)
    small.apply(call("gates", "gate.run", arguments={"model": MODEL, "alias": "champion"}))
    wish = Trigger(kind="dataset", about="customers")
    small.call(triggers.SET_TRIGGER, triggers.SetTrigger(project=PROJECT, pipeline="nightly", trigger="by-data", wish=wish))
    small.platform.lifecycle.trigger(small.clock.now())
    assert hall.evidence(1) == ()
    put_rows(hall, "customers", CSV.replace(b"3,0", b"4,1"))
    small.platform.lifecycle.trigger(small.clock.now())
    (started,) = small.call(pipelines.LIST_RUNS, pipelines.ListRuns(project=PROJECT, pipeline="nightly")).items
    assert small.until(started.id).state == "done"
    (told,) = hall.evidence(1)
    assert (told.gate, told.passed, told.counts) == ("whole", True, True)
