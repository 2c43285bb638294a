"""One job's page: why it waits and when it will start, what happened to it, what it wrote and what it used."""

import shlex
from typing import Any, Final

from falaj.base.values import value
from falaj.jobs.operations.jobs import READ_EVENTS, READ_LOG, OneJob, ReadUsage
from falaj.web.drawing.quotas import share_bar
from falaj.web.drawing.sparklines import sparkline
from falaj.web.forms import checked
from falaj.web.jobs.amounts import amount, between, log_lines, memory, money, resource_name, sentence, span
from falaj.web.jobs.listing import LIVE, asks, tone
from falaj.web.optimisation.asking import searched_by
from falaj.web.visits import Visit

LOG_SHOWN: Final = 65_536
MOST_EVENTS: Final = 200
LONGEST_COMMAND: Final = 4_000
SMALL_MEMORY: Final = 4_096  # MiB, below which they are read better than GiB
_EVENTS: Final = {
    "done": "good",
    "failed": "bad",
    "lost": "bad",
    "memory": "bad",
    "cancel": "warn",
    "cancelled": "warn",
    "stopping": "warn",
    "stopped": "warn",
    "preempted": "warn",
    "retry": "warn",
    "odd": "warn",
}


@value
class ChartOf:
    """`asked` is a line to hold the course against, 0 for none; `scale` makes the chart's unit of the point's."""

    name: str
    title: str
    unit: str
    asked: float
    scale: float
    last: str
    spark: Any


# What is asked for


def job_id(visit: Visit) -> str:
    """The whole of it, also where the address has only the last digits."""
    return str(visit.loaded["job"].id)


def events(visit: Visit) -> Any:
    asked = {"project": visit.project, "job": job_id(visit), "limit": MOST_EVENTS}
    return checked(READ_EVENTS, asked | {"cursor": visit.query.get("events", "")})


def why(visit: Visit) -> OneJob | None:
    return OneJob(project=visit.project, job=job_id(visit)) if visit.loaded["job"].state == "waiting" else None


def this_job(visit: Visit) -> OneJob:
    return OneJob(project=visit.project, job=job_id(visit))


def used(visit: Visit) -> ReadUsage:
    return ReadUsage(project=visit.project, job=job_id(visit))


def first_part(visit: Visit) -> Any:
    """The part of the log that the page shows by itself."""
    return _log(visit, job_id(visit), LOG_SHOWN)


def log_part(visit: Visit) -> Any:
    """What the page's script reads on."""
    return _log(visit, visit.path["job"], 4 * LOG_SHOWN)


def _log(visit: Visit, job: str, limit: int) -> Any:
    asked = {name: visit.query[name] for name in ("attempt", "offset") if visit.query.get(name)}
    return checked(READ_LOG, {"project": visit.project, "job": job, "limit": limit} | asked)


# What is made of it


def story(visit: Visit) -> dict[str, Any]:
    job, log = visit.loaded["job"], visit.loaded["log"]
    happened = visit.loaded["events"]
    tries = visit.loaded["attempts"].items if visit.loaded["attempts"] is not None else ()
    return {
        "live": job.state in LIVE,
        "tone": tone(job, visit.now),
        "asks": asks(job.spec),
        "command": shown_command(job.spec.command),
        "optimisation": searched_by(job.spec.command),
        "command_line": command_line(visit.project, job.spec),
        "reason": sentence(visit.loaded["why"].sentence if visit.loaded["why"] is not None else job.words),
        "waited": between(job.submitted, job.started or (visit.now if job.state in LIVE else job.ended or visit.now)),
        "ran": between(job.started, job.ended or visit.now),
        "shares": _shares(visit.loaded["why"]),
        "starts": _starts(visit),
        "happenings": [(event, _EVENTS.get(event.kind, "")) for event in happened.items] if happened is not None else [],
        "tries": tries,
        "places": _places(job.places),
        "places_of": _places,
        "log_text": log_lines(log.text) if log is not None else "",
        "attempt": visit.query.get("attempt", "") or "0",
        "offset": visit.query.get("offset", "") or "0",
        "charts": _charts(visit),
        "used": _used(job),
        "money": money,
        "memory": memory,
        "span": span,
        "between": between,
        "sentence": sentence,
    }


def shown_command(command: tuple[str, ...]) -> str:
    words = shlex.join(command)
    return words if len(words) <= LONGEST_COMMAND else f"{words[:LONGEST_COMMAND]}…"


def command_line(project: str, spec: Any) -> str:
    """The same job from a shell, as far as a line can say it: what was sent with it stays behind. Empty where too long."""
    wish = spec.resources
    said: list[str] = ["falaj", "job", "submit", "--project", project, "--name", spec.name, "--queue", spec.queue]
    said += ["--cpus", f"{wish.cpus:g}", "--memory", f"{wish.memory_mib}MiB"]
    for option, given, plain in (
        ("--gpus", wish.gpus, 0.0),
        ("--priority", spec.priority, "normal"),
        ("--tasks", spec.tasks, 1),
        ("--least", spec.least, 0),
        ("--image", spec.image, ""),
        ("--experiment", spec.experiment, ""),
        ("--takes", f"{spec.seconds}s", "0s"),
        ("--timeout", f"{spec.timeout}s", "86400s"),
        ("--retries", spec.retries, 2),
        ("--topology", spec.topology, "any"),
    ):
        if given != plain:
            said += [option, f"{given:g}" if isinstance(given, float) else str(given)]
    for option, several in (
        ("--gpu-model", wish.gpu_models),
        ("--env", [f"{one.name}={one.value}" for one in spec.variables]),
        ("--secret", spec.secrets),
        ("--host", spec.hosts),
        ("--writes", spec.outputs),
    ):
        for one in several:
            said += [option, one]
    said += ["--checkpoints"] if spec.checkpoints else []
    said += [] if spec.source else ["--no-source"]
    line = shlex.join([*said, "--", *spec.command])
    return line if len(line) <= LONGEST_COMMAND else ""


def _starts(visit: Visit) -> Any:
    """The forecast; nothing where nobody can say."""
    found = visit.loaded["eta"]
    return found if found is not None and found.expected is not None else None


def _shares(why: Any) -> list[dict[str, Any]]:
    return [
        {
            "resource": resource_name(share.resource),
            "bar": share_bar(owed=share.nominal, used=share.used, borrowed=share.borrowed, lent=share.lent, whole=0),
            **{
                name: amount(share.resource, getattr(share, name))
                for name in ("nominal", "used", "borrowed", "lent", "asked", "free")
            },
        }
        for share in (why.shares if why is not None else ())
    ]


def _places(places: Any) -> list[str]:
    """One line for each host: how many tasks, on which cards."""
    by_node: dict[str, list[tuple[int, ...]]] = {}
    for place in places:
        by_node.setdefault(place.node, []).append(place.cards)
    told = []
    for node, seats in by_node.items():
        cards = sorted({card for several in seats for card in several})
        tasks = f", {len(seats)} tasks" if len(seats) > 1 else ""
        told.append(node + tasks + (f", GPU {', '.join(map(str, cards))}" if cards else ""))
    return told


def _charts(visit: Visit) -> list[ChartOf]:
    job, found = visit.loaded["job"], visit.loaded["usage"]
    points, wish, tasks = (found.points if found is not None else ()), job.spec.resources, job.tasks or job.spec.tasks
    unit, scale = (" GiB", 1 / 1024) if wish.memory_mib * tasks >= SMALL_MEMORY else (" MiB", 1.0)
    charts = [
        ("cpus", "CPUs in use", "", wish.cpus * tasks, 1.0),
        ("memory_mib", "Memory", unit, wish.memory_mib * tasks * scale, scale),
    ]
    if wish.gpus or any(point.gpu_busy for point in points):
        charts += [("gpu_busy", "GPUs computing", "", wish.gpus * tasks, 1.0)]
    if any(point.gpu_memory_mib for point in points):
        charts += [("gpu_memory_mib", "GPU memory", " GiB", 0.0, 1 / 1024)]
    return [_chart(points, *chart) for chart in charts]


def _chart(points: Any, name: str, title: str, unit: str, asked: float, scale: float) -> ChartOf:
    values = [getattr(point, name) * scale for point in points]
    spark = sparkline(values, width=300, height=150, class_="spark spark-large")
    last = f"{values[-1]:.3g}{unit}" if values else ""
    return ChartOf(name=name, title=title, unit=unit, asked=asked, scale=scale, last=last, spark=spark)


def _used(job: Any) -> list[tuple[str, str, str, float]]:
    """What, of what was asked for, and which part of it that is."""
    usage, wish, told = job.usage, job.spec.resources, []
    if asked := usage.cpu_seconds_asked:
        told.append(("CPU", span(usage.cpu_seconds), span(asked), usage.cpu_seconds / asked))
    if peak := usage.memory_mib_peak:
        told.append(("Memory at most", memory(peak), memory(wish.memory_mib), peak / wish.memory_mib))
    if held := usage.gpu_seconds:
        told.append(("GPU computing", span(usage.gpu_busy_seconds), span(held), usage.gpu_busy_seconds / held))
    return told
