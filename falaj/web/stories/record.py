"""The line of time at the top, and at the end every event with what the ledger proves of it. Pure."""

import json
import re
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.clock import SECOND, Moment
from falaj.lifecycle.operations.stories import Chapter, Event, Stage, Story
from falaj.web.drawing.stations import State, Station, stations
from falaj.web.drawing.svg import element
from falaj.web.experiments.numbers import duration_text
from falaj.web.rendering import count
from falaj.web.serving.fields import percent
from falaj.web.stories.parts import (
    Leaves,
    Links,
    at,
    badge,
    body,
    chapter,
    digest,
    facts,
    named,
    nothing,
    outcome,
    own,
    paragraph,
    sub,
    table,
)

_STAGES: Final[dict[Stage, str]] = {
    "data": "data",
    "training": "training",
    "registry": "registry",
    "evaluation": "gates",
    "pipeline": "pipeline",
    "approval": "approval",
    "serving": "traffic",
    "watching": "watched",
}
_CHAPTERS: Final[dict[str, set[Chapter]]] = {
    "Data": {"data"},
    "Training": {"training"},
    "Gates": {"evaluation", "variants"},
    "Promoted": {"approvals"},
    "Traffic": {"serving"},
    "Watched": {"serving", "watching"},
}
_PROVEN: Final = {
    "proven": ("proven", "good"),
    "waiting": ("waiting", "warn"),
    "missing": ("missing", "bad"),
    "differs": ("differs", "bad"),
}


def line(story: Story) -> Markup:
    """From raw data to traffic: when each stage was reached first, and what the ledger proves of its events."""
    reached: Moment | None = None
    hidden = {one.chapter for one in story.hidden}
    drawn = []
    for reach in (_data, _training, _registered, _gates, _promoted, _traffic, _watched):
        station, first = reach(story)
        if station.state == "none" and hidden & _CHAPTERS.get(station.title, set()):
            station = Station(title=station.title, state="none", lines=("not visible",))
        since = _since(reached, first)
        drawn.append(Station(title=station.title, state=station.state, lines=station.lines, since=since))
        reached = first or reached
    told = "; ".join(f"{one.title}: {', '.join(one.lines)}" for one in drawn)
    return stations(drawn, label=f"From raw data to traffic. {told}.")


def _since(before: Moment | None, now: Moment | None) -> str:
    """As people say it: seconds matter within a minute, and less than one does not at all."""
    if before is None or now is None or now - before < SECOND:
        return ""
    told = duration_text((now - before) // 1000)
    return told.partition(" min ")[0] + " min" if " min " in told else re.sub(r"\.\d| 0 \S+$", "", told)


_Reached = tuple[Station, Moment | None]


def _station(title: str, events: Sequence[Event], *lines: str, trouble: bool = False) -> _Reached:
    """Where nothing happened, hollow; where the ledger does not agree, with a warning."""
    said = tuple(text for text in lines if text)
    if not said:
        return Station(title=title, state="none", lines=("nothing known",)), None
    recorded = [one.recorded for one in events if one.recorded is not None]
    troubled = any(one.state in ("missing", "differs") for one in recorded)
    proven = sum(one.state == "proven" for one in recorded)
    told = (f"{proven} of {len(recorded)} proven",) if recorded else ()
    first = events[0].at if events else None
    when = (str(first)[:10],) if first is not None else ()
    how: State = "troubled" if troubled or trouble else "done"
    return Station(title=title, state=how, lines=(*when, *said, *told)), first


def _of(story: Story, *stages: Stage) -> list[Event]:
    return [one for one in story.events if one.stage in stages]


def _data(story: Story) -> _Reached:
    nearest = min(story.data, key=lambda one: one.distance, default=None)
    if nearest is None:
        return _station("Data", ())
    name = f"{nearest.name}@{nearest.version}" if nearest.version else nearest.name
    more = f"and {len(story.data) - 1} more" if len(story.data) > 1 else ""
    bad = any(one.state == "quarantined" for one in story.data)
    return _station("Data", _of(story, "data"), name, more, trouble=bad)


def _training(story: Story) -> _Reached:
    run = story.training
    return _station("Training", _of(story, "training"), *(() if run is None else (run.name, f"by {run.by}")))


def _registered(story: Story) -> _Reached:
    events = [one for one in _of(story, "registry") if one.thing.kind == "version"]
    signed = "signed" if story.version.signed else "not signed"
    return _station("Registered", events, f"v{story.version.version}, {signed}", f"by {story.registered_by}")


def _gates(story: Story) -> _Reached:
    counting = [one for one in story.gates if one.counts]
    passed = sum(one.passed for one in counting)
    certified = sum(one.state == "certified" for one in story.variants)
    lines = (
        f"{passed} of {len(counting)} passed" if counting else "evidence that counts no more" if story.gates else "",
        f"{certified} certified variants" if certified > 1 else "1 certified variant" if certified else "",
    )
    return _station("Gates", _of(story, "evaluation"), *lines, trouble=passed < len(counting))


def _promoted(story: Story) -> _Reached:
    mine = [one for one in story.moves if one.version == story.version.version]
    if not mine:
        waits = [one for one in story.approvals if one.state in ("waiting", "ready")]
        asked = (f"{waits[-1].alias}: {waits[-1].state}", f"{waits[-1].given} of {waits[-1].needed} approvals") if waits else ()
        return _station("Promoted", _of(story, "approval"), *asked)
    last = mine[-1]
    approved = f"approved by {', '.join(person.name for person in last.approvers)}" if last.approvers else f"by {last.by.name}"
    events = [one for one in _of(story, "registry", "approval") if one.thing.kind != "version"]
    return _station("Promoted", events, last.alias, approved)


def _traffic(story: Story) -> _Reached:
    if not story.served:
        return _station("Traffic", ())
    now = [f"{percent(one.share)} of {one.endpoint}" for one in story.served if one.share]
    return _station("Traffic", _of(story, "serving"), *(now[:2] or ("answers nothing now",)))


def _watched(story: Story) -> _Reached:
    alerts = [one for served in story.served for one in served.alerts]
    tests = [one for served in story.served for one in served.abtests]
    figures = [one for served in story.served for one in served.quality]
    still = sum(one.resolved is None for one in alerts)
    lines = (
        f"{len(alerts)} {'alert' if len(alerts) == 1 else 'alerts'}, {still} open" if alerts else "",
        f"{figures[0].name} {figures[0].at:.3g}" if figures else "",
        f"{len(tests)} A/B {'test' if len(tests) == 1 else 'tests'}" if tests else "",
    )
    events = _of(story, "watching")
    return _station("Watched", events, *lines, trouble=still > 0)


# Every event


def events(story: Story, links: Links, leaves: Leaves) -> Markup:
    if not story.events:
        return chapter("Every event, with its proof", nothing(story, "Nothing is known to have happened."), id="events")
    rows = [
        (
            at(one.at),
            badge(_STAGES[one.stage]),
            named(one.words, one.thing, links) if one.thing.kind else own(one.words),
            own(one.by) if one.by else Markup('<span class="soft">the platform</span>'),
            _recorded(one, leaves),
        )
        for one in story.events
    ]
    note = "There are more; the oldest are left out" if story.cut else f"{len(story.events)} in order of time"
    heads = ("When", "Stage", "What", "Who", "In the ledger")
    return chapter("Every event, with its proof", table(heads, rows, class_="story-events"), id="events", note=note)


def _recorded(one: Event, leaves: Leaves) -> Markup:
    if one.recorded is None:
        return Markup('<span class="soft">no leaf of its own</span>')
    words, tone = _PROVEN[one.recorded.state]
    leaf = f"leaf {one.recorded.index}" if one.recorded.index is not None else "leaf"
    told = outcome(f"{leaf}, {words}" if one.recorded.leaf else words, tone)
    id = digest(one.recorded.leaf)
    if one.recorded.state in ("missing", "differs"):
        return told + sub(one.recorded.words)
    address = leaves(one.recorded.leaf)
    return told + sub(element("a", "see the proof", href=address) if address else id)


def ledger(story: Story, *, whole: bool) -> Markup:
    """`whole`: with every proof, so that it can be checked without the platform."""
    found = story.ledger
    tone = "good" if found.genuine and not found.troubled else "bad"
    content = [paragraph(outcome(found.words, tone))]
    if found.head is not None:
        content.append(
            facts(
                (
                    ("Leaves", count(found.head.size)),
                    ("Root", digest(found.head.root)),
                    ("Signed", at(found.head.at)),
                    ("By the key", digest(found.head.key)),
                    ("Signature", digest(found.head.signature)),
                )
            )
        )
    content.append(
        paragraph(
            "A leaf is the record of one call. Hashed upwards along its path (RFC 9162) it gives the root that the head is ",
            "signed over; who trusts the key needs nobody else. Compare the key with one that you kept.",
            class_="soft small",
        )
    )
    if whole:
        summary = element("summary", "The proofs, as JSON: head, keys, and each leaf's record and path")
        content.append(element("details", summary, element("pre", proofs(story), id="proofs")))
    return chapter("What the ledger proves", body(*content), id="ledger")


def proofs(story: Story) -> str:
    """What a program needs to check each leaf by itself; see docs/story.md."""
    leaves = [
        {"event": one.words, "at": str(one.at), "index": it.index, "leaf": it.leaf, "record": it.record, "path": list(it.path)}
        for one in story.events
        if (it := one.recorded) is not None and it.state == "proven"
    ]
    found = story.ledger
    document = {
        "head": None if found.head is None else found.head.document() | {"at": str(found.head.at)},
        "keys": found.keys,
        "endorsements": [one.document() for one in found.endorsements],
        "leaves": leaves,
    }
    return json.dumps(document, indent=1, ensure_ascii=False)
