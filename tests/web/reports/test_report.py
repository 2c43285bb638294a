"""A report to send on: one file that needs nothing, runs nothing, shows what its reader may see and says what it rests on."""

import re
from dataclasses import replace

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Forbidden, NotFound
from falaj.base.operation import Operation, Req, Res
from falaj.governance.roles import Role
from falaj.monitoring.operations import abtests, labels, monitors
from falaj.monitoring.operations.labels import Bucket, Figure, Quality
from falaj.monitoring.operations.monitors import Bin, Spread
from falaj.monitoring.operations.words import Objective, Told
from falaj.web.reports.gathering import MOST_SPREADS, Gathered, gathered
from falaj.web.reports.page import report
from tests.monitoring.drift.platform import QUICK, Watched, rows_of
from tests.serving.control.platform import PROJECT, Platform, said
from tests.web.reports.reading import Read

MADE = Moment.parse("2026-11-15T12:00:00Z")
EVIL = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


@pytest.fixture
def drifted(small: Platform) -> Watched:
    watched = Watched(small)
    watched.apply(replace(QUICK, objectives=(Objective(kind="availability", share=0.999),)))
    watched.learn()
    for seed in range(6):
        watched.plane.report(said(watched.endpoint, 1, requests=200, errors=20))
        watched.window(rows_of(seed, amount=40.0))
    return watched


def asked(watched: Watched, token: str = "") -> Gathered:
    def ask(operation: Operation[Req, Res], request: Req) -> Res:
        return watched.platform.call(operation, request, token)

    return gathered(ask, PROJECT, "scores")


def test_it_tells_how_the_endpoint_is_what_is_alarming_what_drifts_and_what_it_rests_on(drifted: Watched) -> None:
    found = asked(drifted)
    read = Read(report(found, MADE))
    assert read.open == []
    assert read.text.count("drifting . ") == 1
    for title in ("Alerts", "Drift", "Quality", "Service levels", "What this rests on"):
        assert ("section", {"id": dict(SECTIONS)[title]}) in read.tags
    assert "amount" in read.text
    assert "fast burn" in read.text
    assert "too fast" in read.text
    assert "rows were looked at, and 0 (0.0%) were answered without being looked at" in read.text
    assert "ks (Kolmogorov-Smirnov): the furthest that the cumulated distributions are apart" in read.text
    assert re.search(r"The budget is spent \d+\.\d times over\.", read.text)
    assert found.withheld == ()
    assert 0 < len(found.spreads) <= MOST_SPREADS


SECTIONS = (
    ("Alerts", "alerts"),
    ("Drift", "drift"),
    ("Quality", "quality"),
    ("Service levels", "objectives"),
    ("What this rests on", "stated"),
)


def test_it_needs_nothing_from_elsewhere_and_nothing_in_it_runs(drifted: Watched) -> None:
    text = report(asked(drifted), MADE)
    read = Read(text)
    assert not {tag for tag, _ in read.tags} & {"script", "img", "link", "iframe", "object", "form", "a"}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name in ("src", "href")]
    assert "url(" not in text
    assert re.search(r"https?://", text) is None
    [policy] = [one["content"] for tag, one in read.tags if tag == "meta" and "http-equiv" in one]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_plot_says_what_it_shows_and_has_its_numbers_in_a_table(drifted: Watched) -> None:
    read = Read(report(with_quality(asked(drifted)), MADE))
    plots = [attributes for tag, attributes in read.tags if tag == "svg"]
    figures = [tag for tag, _ in read.tags if tag == "figure"]
    assert len(plots) == len(figures) >= 4
    for attributes in plots:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 20
    assert [tag for tag, _ in read.tags].count("details") == len(figures)


def with_quality(found: Gathered) -> Gathered:
    figure = Figure(name="accuracy", at=0.9, low=0.85, high=0.94, rows=500)
    bucket = Bucket(revision=1, at=MADE, rows=500, kind="classes", figures=(figure,))
    later = replace(bucket, at=Moment(MADE + 86_400_000_000), figures=(replace(figure, at=float("nan")),))
    return replace(found, quality=Quality(items=(later, bucket), labels=500, unknown=3, left_out=0, remarks=("A remark.",)))


def test_quality_is_drawn_with_its_intervals(drifted: Watched) -> None:
    read = Read(report(with_quality(asked(drifted)), MADE))
    assert "500 labels came; 3 times a label came whose prediction was not known (yet)." in read.text
    assert "revision 1 " in read.text
    assert "2026-11-15" in read.text
    assert ("span", {"class": "key series-1"}) in read.tags
    assert "0.85 0.94" in read.text


def test_whatever_people_called_things_is_text_and_nothing_else(drifted: Watched) -> None:
    found = asked(drifted)
    told = Told(column=EVIL, effect=0.5, evidence=3.0, missing=0.1, outside=0.2, drifting=True)
    spread = Spread(
        column=EVIL,
        revision=1,
        rows=5,
        bins=(Bin(name=EVIL, reference=0.5, seen=0.5),),
        distances={EVIL: 1.0},
        quantiles={},
        distinct=1,
        sentence=EVIL,
    )
    [watching] = found.monitor.watching
    assert found.windows is not None
    evil = replace(
        found,
        endpoint=EVIL,
        project=EVIL,
        monitor=replace(
            found.monitor,
            wishes=replace(found.monitor.wishes, ignore=(EVIL,)),
            watching=(replace(watching, columns=(told,), learning=(EVIL,), source=EVIL),),
        ),
        windows=replace(found.windows, items=tuple(replace(one, columns=(told,)) for one in found.windows.items)),
        spreads=(spread,),
        alerts=tuple(replace(one, title=EVIL, sentences=(EVIL,)) for one in found.alerts),
        withheld=(EVIL,),
    )
    clean, read = Read(report(found, MADE)), Read(report(evil, MADE))
    assert read.open == []
    assert {tag for tag, _ in read.tags} <= {tag for tag, _ in clean.tags} | {"li"}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert EVIL in " ".join(read.words)


def test_an_endpoint_that_nobody_called_yet_has_a_report_too(small: Platform) -> None:
    watched = Watched(small)
    watched.apply()
    read = Read(report(asked(watched), MADE))
    assert "No window of traffic is complete yet." in read.text
    assert "No alert is open." in read.text
    assert "It is held to no objective." in read.text
    assert "no labels came" in read.text


def test_what_its_reader_may_not_see_is_named_and_not_in_it(drifted: Watched) -> None:
    def ask(operation: Operation[Req, Res], request: Req) -> Res:
        if operation.name in (monitors.READ_COLUMN.name, labels.READ_QUALITY.name, abtests.LIST_ABTESTS.name):
            raise Forbidden("That is not yours to see.")
        return drifted.platform.call(operation, request)

    found = gathered(ask, PROJECT, "scores")
    assert (found.spreads, found.quality, found.abtests) == ((), None, ())
    read = Read(report(found, MADE))
    assert "Not in this report: Quality: That is not yours to see." in read.text


def test_a_viewer_gets_one_and_a_stranger_none(drifted: Watched) -> None:
    viewer = drifted.platform.person("sam", Role.VIEWER)
    assert asked(drifted, viewer).monitor.endpoint == "scores"
    drifted.platform.project("elsewhere")
    stranger = drifted.platform.person("kim", Role.ADMIN, project="elsewhere")
    with pytest.raises(NotFound):
        asked(drifted, stranger)
