"""The list of a project's jobs: which are asked for, why those that wait do, and what is said of each in a line."""

from typing import Any, Final
from urllib.parse import urlencode

from falaj.base.clock import HOUR, Moment
from falaj.base.values import value
from falaj.jobs.operations.jobs import LIST_JOBS, OneJob
from falaj.jobs.operations.queues import ListQueues
from falaj.web.forms import checked
from falaj.web.jobs.amounts import between, memory, money, sentence
from falaj.web.visits import Visit

ON_A_PAGE: Final = 50
MOST_EXPLAINED: Final = 8  # each asks the scheduler itself
LONG: Final = HOUR
LIVE: Final = ("waiting", "starting", "running", "stopping")
STATES: Final = (
    ("", "All"),
    ("live", "Live"),
    ("waiting", "Waiting"),
    ("running", "Running"),
    ("done", "Done"),
    ("failed", "Failed"),
    ("cancelled", "Cancelled"),
)
_TONES: Final = {"starting": "accent", "running": "accent", "stopping": "warn", "done": "good", "failed": "bad"}


@value
class Row:
    """A job in a list. `when` says in two words what `span` is the length of."""

    job: Any
    tone: str
    when: str
    span: str
    words: str
    asks: str
    cost: str
    live: bool


# What is asked for


def jobs(visit: Visit) -> Any:
    asked = {name: visit.query.get(name, "") for name in ("state", "queue", "cursor")}
    return checked(LIST_JOBS, {"project": visit.project, "limit": ON_A_PAGE, **asked})


def queues(visit: Visit) -> ListQueues:
    return ListQueues(project=visit.project)


def reasons(visit: Visit) -> list[OneJob]:
    """Why the first that wait do."""
    found = visit.loaded["jobs"]
    waiting = [job.id for job in found.items if job.state == "waiting"] if found is not None else []
    return [OneJob(project=visit.project, job=id) for id in waiting[:MOST_EXPLAINED]]


# What is made of it


def tone(job: Any, now: Moment) -> str:
    return "warn" if waits_long(job, now) else _TONES.get(job.state, "")


def waits_long(job: Any, now: Moment) -> bool:
    return bool(job.state == "waiting" and now - job.submitted > LONG)


def asks(spec: Any) -> str:
    """What a job takes, in a few words."""
    wish = spec.resources
    parts = [f"{wish.cpus:g} CPU{'' if wish.cpus == 1 else 's'}", memory(wish.memory_mib)]
    if wish.gpus:
        models = f" ({' or '.join(wish.gpu_models)})" if wish.gpu_models else ""
        parts.append(f"{wish.gpus:g} GPU{'' if wish.gpus <= 1 else 's'}{models}")
    least = f"{spec.least} to " if spec.least and spec.least < spec.tasks else ""
    tasks = f"{least}{spec.tasks} tasks of " if spec.tasks > 1 else ""
    return tasks + ", ".join(parts)


def rows(visit: Visit) -> dict[str, Any]:
    found, known = visit.loaded["jobs"], visit.loaded["queues"]
    usable = [queue.spec.name for queue in known.queues if queue.usable] if known is not None else []
    state, queue = visit.query.get("state", ""), visit.query.get("queue", "")
    listed = [_row(visit, job) for job in found.items] if found is not None else []
    return {
        "rows": listed,
        "states": STATES,
        "state": state,
        "queue": queue,
        "queue_names": usable,
        "priorities": [one.name for one in known.priorities] if known is not None else ["normal"],
        "address": _address(visit, state=state, queue=queue, cursor=visit.query.get("cursor", "")),
        "to": lambda **changes: _address(visit, **({"state": state, "queue": queue} | changes)),
        "any_live": any(row.live for row in listed),
        "money": money,
    }


def _address(visit: Visit, **query: str) -> str:
    said = urlencode({name: text for name, text in query.items() if text})
    return f"/projects/{visit.project}/jobs" + (f"?{said}" if said else "")


def _row(visit: Visit, job: Any) -> Row:
    why = (visit.loaded["reasons"] or {}).get(OneJob(project=visit.project, job=job.id))
    when, took = _span(job, visit.now)
    return Row(
        job=job,
        tone=tone(job, visit.now),
        when=when,
        span=took,
        words=sentence(why.sentence if why is not None else job.words),
        asks=asks(job.spec),
        cost=money(job.usage.cost),
        live=job.state in LIVE,
    )


def _span(job: Any, now: Moment) -> tuple[str, str]:
    if job.state == "waiting":
        return "waits", between(job.submitted, now)
    if job.started is None:
        return ("", "") if job.ended is not None else ("starts", "")
    return ("took", between(job.started, job.ended)) if job.ended is not None else ("runs", between(job.started, now))
