"""What the Ray engine and the program it runs inside a cluster tell each other.

The engine reaches a cluster through its HTTP API alone. What is secret goes as a *letter*: a package among those that Ray keeps
for jobs, which the dashboard does not show, and which the program takes away when it reads it. What the program says goes into
the metadata of its Ray job, which is all that is ever read of it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.engines.engine import CardUse, Cause, Environment, Launch, Limits, Used
from falaj.jobs.engines.understanding import Senseless, cause_of, moment_of, used_of
from falaj.jobs.running.log import MIB
from falaj.jobs.scheduler.values import Node, Seat, Shape

STORE: Final = "gcs"  # the protocol that Ray keeps packages under
OWNER, NODES, SEGMENT, STATUS = "falaj", "falaj.nodes", "falaj.segment", "falaj.status"  # metadata of a Ray job
SEGMENTS: Final = 64  # of a full log
LOGS: Final = "falaj"  # the folder within Ray's logs
_LENGTH: Final = 8


@value
class Order:
    """One attempt as the cluster is told of it: `nodes` names Ray's id for the host of each seat, and nothing where it is gone.

    `tls` is what its tasks know each other by, where they have to: certificate, key and authority. `checkpoints` is where jobs
    keep theirs, the same on every host; empty for a folder of Ray's own on each.
    """

    launch: Launch
    nodes: tuple[str, ...]
    tls: tuple[str, str, str] | None = None
    checkpoints: str = ""


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
        "zone": launch.zone,
        "outputs": launch.outputs,
        "checkpoints": launch.checkpoints,
        "checkpoints_in": order.checkpoints,
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
    checkpoints = document.pop("checkpoints_in")
    launch = Launch(
        **document
        | {
            "command": tuple(document["command"]),
            **{name: tuple(document[name]) for name in ("hosts", "outputs", "checkpoints")},
            "shape": Shape(**shape | {"models": tuple(shape["models"])}),
            "seats": tuple(Seat(node=seat["node"], cards=tuple(seat["cards"])) for seat in document["seats"]),
            "environment": Environment(**document["environment"]),
            "limits": Limits(**document["limits"]),
            "source": (lambda: iter([source])) if has_source else None,
        }
    )
    return Order(launch=launch, nodes=tuple(nodes), tls=tuple(tls) if tls else None, checkpoints=checkpoints)


# What Ray's agents say


def card_uses(summary: Iterable[Mapping[str, Any]], nodes: Mapping[str, Node]) -> dict[str, list[CardUse | None]]:
    """By our names of the hosts; `nodes` has them by Ray's ids. A host may have more cards than Ray was told of."""
    found: dict[str, list[CardUse | None]] = {}
    for host in summary:
        node = nodes.get((host.get("raylet") or {}).get("nodeId", ""))
        if node is not None:
            said = {card["index"]: card for card in host.get("gpus") or ()}
            found[node.name] = [_card_use(said.get(number)) for number in range(len(node.cards))]
    return found


def _card_use(said: Mapping[str, Any] | None) -> CardUse | None:
    if said is None or said["utilizationGpu"] is None:
        return None
    return CardUse(
        busy=said["utilizationGpu"] / 100, memory_mib=int(said["memoryTotal"]), memory_used_mib=int(said["memoryUsed"])
    )


def status_written(status: Status) -> str:
    return json.dumps(asdict(status))


def status_understood(text: str) -> Status:
    """Raises `Senseless`."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Senseless(str(error)) from None
    if not isinstance(document, dict):
        raise Senseless("it is no document")
    return Status(
        started=moment_of(document.get("started")),
        used=used_of(document.get("used", {})),
        ended=_ended(document["ended"]) if document.get("ended") else None,
    )


def _ended(told: Mapping[str, Any]) -> Ended:
    at = moment_of(told.get("at"))
    if at is None:
        raise Senseless("it does not say when it ended")
    return Ended(cause=cause_of(told.get("cause")), code=told.get("code"), words=str(told.get("words", "")), at=at)
