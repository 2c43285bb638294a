"""The hosts as they stand: every GPU as a square, what is held against what computes; and how they were used over weeks."""

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.operations.nodes import READ_CAPACITY_REPORT
from falaj.web.drawing.cards import card
from falaj.web.drawing.quotas import meter
from falaj.web.drawing.sparklines import sparkline
from falaj.web.forms import checked
from falaj.web.jobs.amounts import between, memory, money, span
from falaj.web.visits import Visit

HOSTS_ON_A_PAGE: Final = 100
SPANS: Final = ((1, "day"), (7, "week"), (14, "2 weeks"), (30, "30 days"), (90, "90 days"))
_TONES: Final = {
    "ready": "good",
    "silent": "bad",
    "draining": "warn",
    "drained": "warn",
    "lost": "bad",
    "starting": "warn",
    "going": "warn",
}
_KINDS: Final = (("queue", "Queue"), ("project", "Project"), ("user", "Person"), ("node", "Host"), ("gpu", "GPU"))
MOST_NAMED: Final = 50


@value
class Square:
    """One GPU. `idle`: somebody holds it and it does nothing."""

    drawing: Markup
    words: str
    idle: bool


@value
class Host:
    node: Any
    tone: str
    cpus: str
    cpu_bar: Markup
    memory: str
    memory_bar: Markup
    squares: tuple[Square, ...]
    models: str


def hosts(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["nodes"].items
    page = _page(visit, len(found))
    shown = found[page * HOSTS_ON_A_PAGE : (page + 1) * HOSTS_ON_A_PAGE]
    there = [node for node in found if node.state not in ("lost", "starting")]
    cards = [each for node in there for each in node.cards]
    queues = visit.loaded["queues"].queues if visit.loaded["queues"] is not None else ()
    return {
        "hosts": [_host(node, visit.now) for node in shown],
        "page": page,
        "pages": -(-len(found) // HOSTS_ON_A_PAGE),
        "totals": {
            "hosts": len(there),
            "lost": sum(node.state == "lost" for node in found),
            "starting": sum(node.state == "starting" for node in found),
            "going": sum(node.state == "going" for node in found),
            "draining": sum(node.state in ("draining", "drained") for node in there),
            "cpus": sum(node.cpus for node in there),
            "cpus_held": sum(node.cpus - node.cpus_free for node in there),
            "cards": len(cards),
            "cards_held": sum(each.held for each in cards),
            "cards_busy": sum(each.busy for each in cards),
            "measured": any(each.measured for each in cards),
            "cards_idle": sum(each.idle_since is not None and each.held > 0 for each in cards),
            "waiting": sum(queue.waiting for queue in queues),
            "running": sum(queue.running for queue in queues),
        },
    }


def _page(visit: Visit, count: int) -> int:
    text = visit.query.get("page", "")
    last = max(0, -(-count // HOSTS_ON_A_PAGE) - 1)
    return min(int(text), last) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _host(node: Any, now: Moment) -> Host:
    held, kept = node.cpus - node.cpus_free, node.memory_mib - node.memory_mib_free
    models = sorted({each.model for each in node.cards})
    return Host(
        node=node,
        tone=_TONES[node.state],
        cpus=f"{held:g} of {node.cpus:g}",
        cpu_bar=meter(held / node.cpus if node.cpus else 0.0),
        memory=f"{memory(kept)} of {memory(node.memory_mib)}",
        memory_bar=meter(kept / node.memory_mib if node.memory_mib else 0.0),
        squares=tuple(_square(each, now) for each in node.cards),
        models=", ".join(f"{sum(each.model == model for each in node.cards)} x {model}" for model in models),
    )


def _square(each: Any, now: Moment) -> Square:
    words = f"GPU {each.index}, {each.model}: "
    if not each.held:
        words += "free"
    else:
        jobs = f"{each.jobs} job{'' if each.jobs == 1 else 's'}"
        words += f"{each.held:.0%} held by {jobs}" + (f", {each.busy:.0%} computing" if each.measured else "")
    if each.memory_mib:
        words += f", {memory(each.memory_used_mib)} of {memory(each.memory_mib)}"
    idle = each.idle_since is not None and each.held > 0
    if idle:
        words += f", idle for {between(each.idle_since, now)}"
    return Square(drawing=card(held=each.held, busy=each.busy), words=words, idle=idle)


# Capacity


def days(visit: Visit) -> int:
    text = visit.query.get("days", "")
    return next((count for count, _ in SPANS if str(count) == text), 1)


def capacity(visit: Visit) -> Any:
    return checked(READ_CAPACITY_REPORT, {"days": days(visit), **whose(visit)})


def whose(visit: Visit) -> dict[str, str]:
    """Whose use over time was asked for, where it was somebody's."""
    kind, name = visit.query.get("of", ""), visit.query.get("name", "")
    return {"of": kind, "name": name} if kind in ("queue", "project", "node") and name else {}


def report(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["capacity"]
    idle = sorted((one for one in found.used if one.kind in ("project", "user") and one.gpu_idle_seconds), key=_idleness)
    return {
        "days": days(visit),
        "spans": SPANS,
        "whose": whose(visit),
        "charts": _charts(found.points),
        "used": [(words, _heaviest(found.used, kind)) for kind, words in _KINDS],
        "idle": idle[:MOST_NAMED],
        "has_gpus": any(point.gpus for point in found.points) or any(one.gpu_seconds for one in found.used),
        "money": money,
        "span": span,
        "part": lambda some, whole: f"{some / whole:.0%}" if whole else "",
    }


def _idleness(one: Any) -> float:
    return -float(one.gpu_idle_seconds)


def _heaviest(used: Sequence[Any], kind: str) -> list[Any]:
    mine = [one for one in used if one.kind == kind]
    return sorted(mine, key=lambda one: (-one.gpu_seconds, -one.cpu_seconds_asked, one.name))[:MOST_NAMED]


def _charts(points: Sequence[Any]) -> list[tuple[str, str, tuple[tuple[str, str, str], ...], Markup]]:
    """Name, title, lines (field, words, how they are drawn), and the course in small."""
    charts: list[tuple[str, str, tuple[tuple[str, str, str], ...], str]] = []
    if any(point.gpus for point in points):
        lines = (("gpus", "there", "dotted"), ("gpus_held", "held", "solid"), ("gpus_busy", "computing", "dashed"))
        charts.append(("gpus", "GPUs: there dotted, held solid, computing dashed", lines, "gpus_held"))
    lines = (("cpus", "there", "dotted"), ("cpus_held", "held", "solid"), ("cpus_busy", "computing", "dashed"))
    charts.append(("cpus", "CPUs: there dotted, held solid, computing dashed", lines, "cpus_held"))
    charts.append(("waiting", "Jobs waiting", (("waiting", "waiting", "solid"),), "waiting"))
    return [(name, title, lines, _spark(points, field)) for name, title, lines, field in charts]


def _spark(points: Sequence[Any], field: str) -> Markup:
    return sparkline([getattr(point, field) for point in points], width=300, height=150, class_="spark spark-large")


# What if


def outcomes(visit: Visit) -> dict[str, Any]:
    found, known = visit.loaded["simulation"], visit.loaded["queues"]
    resources = sorted({share.resource for queue in known.queues for share in queue.shares} | {"cpu", "memory", "gpu"})
    return {
        "typed": visit.query,
        "resources": resources,
        "queue_names": [queue.spec.name for queue in known.queues],
        "node_names": [node.name for node in visit.loaded["nodes"].items] if visit.loaded["nodes"] is not None else [],
        "compared": _compared(found) if found is not None else [],
        "span": span,
    }


def _compared(found: Any) -> list[tuple[str, int, list[tuple[str, str, str]]]]:
    """By queue: how many jobs, and each figure before and after with the tone of its change."""
    before = {one.queue: one for one in found.before}
    rows = []
    for after in found.after:
        was = before.get(after.queue)
        cells = [
            _cell(was, after, "mean_wait", span, less=True),
            _cell(was, after, "p90_wait", span, less=True),
            _cell(was, after, "mean_turnaround", span, less=True),
            _cell(was, after, "preemptions", str, less=True),
            _cell(was, after, "gpu_use", lambda part: f"{part:.0%}", less=False),
            _cell(was, after, "cpu_use", lambda part: f"{part:.0%}", less=False),
        ]
        rows.append((after.queue, after.jobs, cells))
    return rows


def _cell(was: Any, after: Any, name: str, written: Any, *, less: bool) -> tuple[str, str, str]:
    now, before = getattr(after, name), getattr(was, name) if was is not None else None
    if before is None or written(before) == written(now):
        return written(now), "", ""
    return written(now), written(before), "good" if (now < before) == less else "bad"
