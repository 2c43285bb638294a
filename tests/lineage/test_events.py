"""The export, held against OpenLineage's own client: it must write the same event."""

import json
from typing import Any

import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_type_dataset,
    dataset_version_dataset,
    documentation_dataset,
    job_type_job,
    schema_dataset,
)
from openlineage.client.serde import Serde

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.lineage import events
from falaj.lineage.columns import columns_of
from falaj.lineage.events import PRODUCER, RunFacts
from tests.lineage.room import EARLY, Room, dataset, model, run, version

COLUMNS = json.dumps({"mlflow_colspec": [{"type": "long", "name": "age"}, {"type": "string", "name": "city"}]})


def by_their_client(facet: Any) -> Any:
    facet._producer = PRODUCER
    return facet


def pages(room: Room, limit: int, **options: Any) -> list[list[str]]:
    """The run ids of each page."""
    found, cursor = [], ""
    while True:
        page = room.events(limit=limit, cursor=cursor, **options)
        found.append([event["run"]["runId"].replace("-", "") for event in page.items])
        if not (cursor := page.next):
            return found


def test_an_event_is_what_the_openlineage_client_writes(room: Room) -> None:
    room.link(dataset("people", "abc"), run(1, "train"), model(1), version(7, "churn v1"))
    room.records.schema["people@abc"] = COLUMNS
    ended = Moment.parse("2027-01-02T03:04:05.678901Z")
    room.records.facts[run(1).id] = RunFacts(experiment="churn", status="FINISHED", ended=ended)
    [event] = room.events().items

    fields = schema_dataset.SchemaDatasetFacetFields
    read = InputDataset(
        namespace="falaj://alpha",
        name="dataset/people",
        facets={
            "version": by_their_client(dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion="abc")),
            "schema": by_their_client(
                schema_dataset.SchemaDatasetFacet(fields=[fields(name="age", type="long"), fields(name="city", type="string")])
            ),
        },
    )
    made = [
        OutputDataset(
            namespace="falaj://alpha",
            name=name,
            facets={
                "datasetType": by_their_client(dataset_type_dataset.DatasetTypeDatasetFacet(datasetType="MODEL")),
                "documentation": by_their_client(documentation_dataset.DocumentationDatasetFacet(description=words)),
            },
        )
        for name, words in ((f"model/{model(1).id}", "model 1"), (f"version/{version(7).id}", "churn v1"))
    ]
    job_type = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="FALAJ", jobType="RUN")
    theirs = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2027-01-02T03:04:05.678901Z",
        run=Run(runId="00000000-0000-0000-0000-000000000001", facets={}),
        job=Job(namespace="falaj://alpha", name="churn", facets={"jobType": by_their_client(job_type)}),
        producer=PRODUCER,
        inputs=[read],
        outputs=made,
    )
    assert without_nothing(event) == without_nothing(Serde.to_dict(theirs))


def without_nothing(part: Any) -> Any:
    """Their client leaves out what is empty in some places and not in others."""
    if isinstance(part, dict):
        return {name: found for name, inner in part.items() if (found := without_nothing(inner)) not in ({}, [], None)}
    return [without_nothing(inner) for inner in part] if isinstance(part, list) else part


@pytest.mark.parametrize(
    ("status", "kind"), [("FINISHED", "COMPLETE"), ("FAILED", "FAIL"), ("KILLED", "ABORT"), ("RUNNING", "RUNNING")]
)
def test_the_kind_of_event_follows_the_runs_status(room: Room, status: str, kind: str) -> None:
    room.link(dataset("people"), run(1))
    room.records.facts[run(1).id] = RunFacts(experiment="churn", status=status, ended=None)
    [event] = room.events().items
    assert event["eventType"] == kind
    assert event["eventTime"] == str(Moment(EARLY + 1))
    assert kind in {state.value for state in RunState}


def test_events_come_in_pages_in_the_order_of_time(room: Room) -> None:
    for number in (5, 3, 9, 1, 7):
        room.link(dataset("people"), run(number))
    assert pages(room, 2) == [[run(5).id, run(3).id], [run(9).id, run(1).id], [run(7).id]]
    assert pages(room, 10, since=Moment(EARLY + 3)) == [[run(9).id, run(1).id, run(7).id]]
    assert pages(room, 10, since=Moment(EARLY + 30)) == [[]]


def test_a_page_with_too_many_links_is_shorter_and_loses_nothing(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_LINKS", 6)
    for number in range(1, 9):
        for data in range(3):
            room.link(dataset(f"d{data}"), run(number))
    found = pages(room, 8)
    assert [id for page in found for id in page] == [run(number).id for number in range(1, 9)]
    assert max(len(page) for page in found) == 2
    assert [len(event["inputs"]) for event in room.events(limit=8).items] == [3, 3]


def test_a_cursor_that_was_not_given_out_is_refused(room: Room) -> None:
    with pytest.raises(Invalid, match="cursor"):
        room.events(cursor="bm8")


def test_another_projects_runs_are_not_exported(room: Room) -> None:
    room.link(dataset("people"), run(1))
    assert room.events(project="beta").items == ()


def test_a_run_that_is_gone_is_left_out(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.link(dataset("people"), run(1))
    room.link(dataset("people"), run(2))
    known = room.records.runs
    monkeypatch.setattr(room.records, "runs", lambda context, ids: known(context, [id for id in ids if id != run(1).id]))
    assert pages(room, 1) == [[], [run(2).id]]


def test_a_model_that_a_run_read_is_an_input_and_what_others_made_of_it_no_output(room: Room) -> None:
    room.link(run(1), model(1), run(2))
    room.link(model(1), version(7))
    [first, second] = room.events().items
    assert [made["name"] for made in first["outputs"]] == [f"model/{model(1).id}", f"version/{version(7).id}"]
    assert [read["name"] for read in second["inputs"]] == [f"model/{model(1).id}"]
    assert second["outputs"] == []


TENSORS = {
    "features": json.dumps([{"name": "pixels", "type": "tensor", "tensor-spec": {"dtype": "uint8", "shape": [-1, 28]}}]),
    "targets": json.dumps([{"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1]}}]),
}


def test_tensors_are_columns_too() -> None:
    found = columns_of(json.dumps({"mlflow_tensorspec": TENSORS}))
    assert [(column.name, column.type) for column in found] == [("pixels", "uint8[-1, 28]"), ("targets", "int64[-1]")]


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "null",
        "[]",
        "{",
        "[" * 100_000,
        '{"mlflow_colspec": "x"}',
        '{"mlflow_colspec": [1, {"type": "long"}, {"name": 3}]}',
        '{"mlflow_tensorspec": 3}',
        '{"mlflow_tensorspec": {"features": null, "targets": "nonsense"}}',
    ],
)
def test_a_schema_of_another_kind_has_no_columns(schema: str) -> None:
    assert columns_of(schema) == ()
