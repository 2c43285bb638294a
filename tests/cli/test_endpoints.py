"""How an endpoint is shown to people."""

import re

import pytest

from falaj.base.clock import Moment
from falaj.cli.commands.endpoint import _endpoint, _traffic
from falaj.cli.layout import Layout
from falaj.registry.operations.promotions import Person
from falaj.serving.operations.endpoints import Endpoint, Options, Revision, Rung, ServingHost, Traffic, TrafficPoint
from falaj.serving.operations.loads import PlaneLoad
from falaj.serving.operations.words import Arm, Steps


def rung(name: str, **told: float) -> Rung:
    given = {"runtime": "onnx", "size": 1, "certificate": "", "host": "", "latency_ms": 0.4, "throughput": 0.0}
    return Rung(name=name, **(given | told))  # type: ignore[arg-type]


def test_an_endpoint_tells_which_rung_answers_and_how_often_it_fell(capsys: pytest.CaptureFixture[str]):
    revision = Revision(
        id="1" * 32,
        number=3,
        model="m",
        version=7,
        version_id="2" * 32,
        runtime="onnx",
        size=1,
        digest="",
        converted="",
        created=Moment(0),
        created_by=Person(id="3" * 32, name="sam"),
        variant="bf16",
        ladder=(rung("bf16", requests=12_000), rung("int8", throughput=2.5, requests=30, falls=2, workers=1)),
    )
    shown = Endpoint(
        id="4" * 32,
        name="fraud",
        zone="home",
        arms=(Arm(revision=3, share=10_000),),
        revisions=(revision,),
        back_to=0,
        steps=Steps(),
        step=0,
        next_step=None,
        options=Options(),
        planes=1,
        ready=1,
        url="",
        problems=(),
        remarks=("Plane 'p', revision 3, int8: certified on A: 0.40 ms; measured here: 0.71 ms.",),
        created=Moment(0),
        changed=Moment(0),
        serial=1,
    )
    _endpoint(Layout(), shown)
    told = capsys.readouterr().out
    assert "100 % to revision 3 (m v7 as bf16)" in told
    assert "revision 3, bf16: 12,000 calls answered" in told
    assert "revision 3, int8: answers on 1 worker, 30 calls answered, fallen to 2 times" in told
    assert "measured here: 0.71 ms" in told
    assert re.search(r"log share +0 %", told)


def test_traffic_tells_calls_that_chose_the_revision_apart_and_how_busy_planes_are(capsys: pytest.CaptureFixture[str]):
    counts = {"requests": 500, "pinned": 123, "errors": 0, "shed": 0, "rows": 500, "batches": 250}
    point = TrafficPoint(at=Moment(0), seconds=10.0, revision=3, p50=1.0, p90=2.0, p99=3.0, **counts)  # type: ignore[arg-type]
    host = ServingHost(plane="first", workers=1, load=PlaneLoad(), sentence="Plane first: 1 worker idles.")
    _traffic(Layout(), Traffic(points=(point,), hosts=(host,)))
    columns, row, *told = capsys.readouterr().out.splitlines()
    assert dict(zip(columns.split()[2:4], row.split()[2:4], strict=True)) == {"CALLS": "500", "PINNED": "123"}
    assert told == ["Plane first: 1 worker idles."]
