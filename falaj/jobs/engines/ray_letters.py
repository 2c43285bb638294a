"""What the Ray engine and the program it runs inside a cluster tell each other.

The engine reaches a cluster through its HTTP API alone. What is secret goes as a *letter*: a package among those that Ray keeps
for jobs, which the dashboard does not show, and which the program takes away when it reads it. What the program says goes into
the metadata of its Ray job, which is all that is ever read of it.
"""

import json
from dataclasses import asdict
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.engines.engine import Cause, Environment, Launch, Limits, Used
from falaj.jobs.running.log import MIB
from falaj.jobs.scheduler.values import Seat, Shape

STORE: Final = "gcs"  # the protocol that Ray keeps packages under
OWNER, NODES, SEGMENT, STATUS = "falaj", "falaj.nodes", "falaj.segment", "falaj.status"  # metadata of a Ray job
SEGMENTS: Final = 64  # of a full log
LOGS: Final = "falaj"  # the folder within Ray's logs
_LENGTH: Final = 8


@value
class Order:
    """One attempt as the cluster is told of it: `nodes` names Ray's id for the host of each seat, and nothing where it is gone.

    `tls` is what its tasks know each other by, where they have to: certificate, key and authority.
    """

    launch: Launch
    nodes: tuple[str, ...]
    tls: tuple[str, str, str] | None = None


@value
class Ended:
    cause: Cause
    code: int | None
    words: str
    at: Moment


@value
class Status:
    """How an attempt goes."""

    started: Moment | None = None
    used: Used = Used()
    ended: Ended | None = None


def segment_size(log_mib: int) -> int:
    return log_mib * MIB // SEGMENTS


# Names of letters


def letters_of(attempt: str) -> str:
    """What the names of all letters about an attempt begin with."""
    return f"falaj_{attempt}_"


def order_letter(attempt: str) -> str:
    return f"{letters_of(attempt)}order.zip"  # Ray keeps nothing by another name


def stop_letter(attempt: str, grace: int) -> str:
    """Its name says it all: whoever asks again for the same says nothing new."""
    return f"{letters_of(attempt)}stop_{max(0, grace)}.zip"


def forgotten_letter(attempt: str) -> str:
    """Of one that was forgotten, or never heard of and stopped: it will not run."""
    return stop_letter(attempt, 0)


def asked_grace(attempt: str, letter: str) -> int | None:
    """Microseconds, where it is a letter that asks the attempt to stop."""
    name = letter.removeprefix(f"{letters_of(attempt)}stop_").removesuffix(".zip")
    return int(name) if name.isdigit() else None


# What is in them


def written(order: Order, source: bytes | None) -> bytes:
    """A length, a document, and the source."""
    launch = order.launch
    document = {
        **{name: getattr(launch, name) for name in ("attempt", "job", "project", "name", "command", "hosts", "platform_url")},
        "shape": asdict(launch.shape),
        "seats": [asdict(seat) for seat in launch.seats],
        "environment": asdict(launch.environment),
        "limits": asdict(launch.limits),
        "variables": dict(launch.variables),
        "private_network": launch.private_network,
        "has_source": source is not None,
        "nodes": order.nodes,
        "tls": order.tls,
    }
    head = json.dumps(document).encode()
    return len(head).to_bytes(_LENGTH) + head + (source or b"")


def understood(letter: bytes) -> Order:
    end = _LENGTH + int.from_bytes(letter[:_LENGTH])
    document: dict[str, Any] = json.loads(letter[_LENGTH:end])
    source, tls = letter[end:], document.pop("tls")
    has_source, nodes, shape = document.pop("has_source"), document.pop("nodes"), document.pop("shape")
    launch = Launch(
        **document
        | {
            "command": tuple(document["command"]),
            "hosts": tuple(document["hosts"]),
            "shape": Shape(**shape | {"models": tuple(shape["models"])}),
            "seats": tuple(Seat(node=seat["node"], cards=tuple(seat["cards"])) for seat in document["seats"]),
            "environment": Environment(**document["environment"]),
            "limits": Limits(**document["limits"]),
            "source": (lambda: iter([source])) if has_source else None,
        }
    )
    return Order(launch=launch, nodes=tuple(nodes), tls=tuple(tls) if tls else None)


def status_written(status: Status) -> str:
    return json.dumps(asdict(status))


def status_understood(text: str) -> Status:
    document: dict[str, Any] = json.loads(text)
    ended, started = document["ended"], document["started"]
    return Status(
        started=Moment(started) if started is not None else None,
        used=Used(**document["used"]),
        ended=Ended(**ended | {"at": Moment(ended["at"])}) if ended else None,
    )
