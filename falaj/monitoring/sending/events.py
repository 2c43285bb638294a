"""What is told of an alert, in the two forms it is sent in: a CloudEvent for programs, and plain words for people."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.values import value

MOST_BYTES: Final = 64 * 1024  # what CloudEvents asks everybody on the way to take
_TITLE: Final = 200  # letters
_WORDS: Final = 3000
_FACT: Final = 300
_TYPE: Final = "falaj."
_CALLS: Final = str.maketrans({"@": "\uff20", "<": "\uff1c"})  # as they are written for wide letters: nobody is called
_LINKS: Final = re.compile(r"\](?=[(\[:])")


@value
class Event:
    """`kind` is such as `alert.raised`. `facts` is what JSON can say; numbers that are none are told as words."""

    id: str
    kind: str
    project: str
    endpoint: str
    title: str
    sentence: str
    facts: Mapping[str, Any]
    severity: str
    at: Moment


def cloud_event(event: Event) -> bytes:
    """CloudEvents 1.0, in structured mode. Facts that make it too large are left out, and that is told: an alert is sent."""
    data = {
        "project": event.project,
        "endpoint": event.endpoint,
        "title": event.title,
        "sentence": event.sentence,
        "severity": event.severity,
        "facts": _sayable(event.facts),
    }
    document = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/projects/{quote(event.project)}/endpoints/{quote(event.endpoint)}",
        "type": _TYPE + event.kind,
        "subject": event.endpoint,
        "time": str(event.at),
        "datacontenttype": "application/json",
        "data": data,
    }
    made = canonical(document)
    return made if len(made) <= MOST_BYTES else canonical(document | {"data": data | {"facts": {"left_out": True}}})


def read_event(written: bytes | str) -> Event:
    """Of a CloudEvent that `cloud_event` wrote."""
    document = json.loads(written)
    return Event(
        id=document["id"],
        kind=document["type"].removeprefix(_TYPE),
        at=Moment.parse(document["time"]),
        **document["data"],
    )


def title_of(event: Event) -> str:
    """One line."""
    return _line(f"[{event.severity}] {_harmless(event.title)}", _TITLE)


def words_of(event: Event) -> str:
    facts = [_line(_harmless(f"{name}: {_told(said)}"), _FACT) for name, said in event.facts.items()]
    lines = [
        _line(_harmless(event.sentence), 2000),
        "",
        f"Endpoint {event.endpoint} of project {event.project}, {event.at}",
        *facts,
    ]
    return _cut("\n".join(lines), _WORDS)


def _sayable(fact: Any) -> Any:
    if isinstance(fact, Mapping):
        return {str(name): _sayable(one) for name, one in fact.items()}
    if isinstance(fact, list | tuple):
        return [_sayable(one) for one in fact]
    if isinstance(fact, float) and not math.isfinite(fact):
        return "NaN" if math.isnan(fact) else "Infinity" if fact > 0 else "-Infinity"
    return fact


def _told(fact: Any) -> str:
    return fact if isinstance(fact, str) else json.dumps(_sayable(fact), ensure_ascii=False)


def _harmless(text: str) -> str:
    """Names in it are anybody's, and chats obey what they read: this calls nobody there, and is no link behind other words."""
    return _LINKS.sub("] ", text.translate(_CALLS))


def _line(text: str, longest: int) -> str:
    """Without letters that would end a line, or that a terminal would obey: names in it are anybody's."""
    return _cut(" ".join("".join(one if one.isprintable() else " " for one in text).split()), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."
