"""Why a job waits, in one sentence that says which rule, which share, and what would help."""

from dataclasses import replace

from falaj.base.clock import Moment
from falaj.jobs.scheduler.claims import Claim
from falaj.jobs.scheduler.lines import Line, Waiting
from falaj.jobs.scheduler.memory import Memory
from falaj.jobs.scheduler.owing import allowance
from falaj.jobs.scheduler.quotas import ceiling
from falaj.jobs.scheduler.values import CPU, GPU, IO, MEMORY, Job, Queue, Wait, gpu_of
from falaj.jobs.scheduler.wording import amount_text, counted, listed, sentence


def needs_text(job: Job, tasks: int) -> str:
    shape = job.shape
    wants = {gpu_of(" or ".join(shape.models)): shape.gpus * shape.gpu_milli, CPU: shape.cpu_milli, MEMORY: shape.memory_mib}
    wants[IO] = shape.io
    each = ", ".join([amount_text(name, amount) for name, amount in wants.items() if amount]) or "next to nothing"
    return f"{tasks} tasks of {each}" if tasks > 1 else each


def never_by_quota(line: Line) -> tuple[str, str] | None:
    """The resource, and the sentence, if the queue could not take the job even were everybody else idle."""
    branch, tasks = line.lineup.branch, line.kind.least
    if branch is None:
        return None
    for index, amount in line.demand:
        name = branch.tree.names[index]
        most = ceiling(branch, index) if line.preemptible else branch.subtree[index]
        if amount * tasks > most:
            why = "" if line.preemptible else " of its own, and one that cannot be preempted may not borrow"
            yields = not line.preemptible and amount * tasks <= ceiling(branch, index)
            return name, (
                f"it needs {amount_text(name, amount * tasks)}, and queue {line.lineup.name} may have at most "
                f"{amount_text(name, most)}{why}: "
                f"{'let it be preempted, ask for less,' if yields else 'ask for less,'} or for more quota"
            )
    return None


def quota_sentence(line: Line, tasks: int) -> tuple[str, str]:
    """Which resource is short, and by how much."""
    branch = line.lineup.branch
    assert branch is not None  # nosec B101 - said for the types alone
    for index, amount in line.demand:
        left = max(0, allowance(line, index))
        if amount * tasks > left:
            name = branch.tree.names[index]
            own, used = amount_text(name, branch.subtree[index]), amount_text(name, branch.used[index])
            if branch.used[index] + amount * tasks <= branch.subtree[index]:
                rest = "other queues borrow what it needs"
            elif not line.preemptible:
                rest = "one that may not be preempted cannot borrow"
            else:
                rest = f"{amount_text(name, left)} may be had" if left > 0 else "nothing is left to borrow"
            return (
                name,
                f"it needs {amount_text(name, amount * tasks)}; queue {line.lineup.name} uses {used} of its {own} and {rest}",
            )
    models = ", ".join(sorted(branch.tree.models))
    needed = amount_text(GPU, line.model_demand * tasks)
    return GPU, f"no GPU model has {needed} of quota left for queue {line.lineup.name} (limited: {models})"


def budget_sentence(queue: Queue, spent: int, cost: int) -> str:
    return (
        f"queue {queue.name} has spent or promised {spent / 1e6:.2f} of its {queue.budget / 1e6:.2f} for 30 days, "
        f"and this would cost {cost / 1e6:.2f}"
    )


def room_sentence(memory: Memory, job: Job, tasks: int) -> tuple[str, str]:
    """Kind and sentence of one for which no host has room."""
    models: set[str] = set()
    for zone in job.zones:
        models |= memory.floor.models.get(zone, set())
    if not any(zone in memory.floor.models for zone in job.zones):
        return "zone", f"no host stands in {' or '.join(job.zones)}, and it may run nowhere else"
    if job.shape.gpus and job.shape.models and models.isdisjoint(job.shape.models):
        return "model", f"no host in {' or '.join(job.zones)} has a {' or '.join(job.shape.models)}"
    return "room", f"no host has room now for {needs_text(job, tasks)}"


def apart_sentence(memory: Memory, job: Job, tasks: int) -> str:
    """Of one for which there is room where labels of its project keep it away; empty for all others. It searches, so it is
    for those who ask."""
    floor = memory.floor
    if not (job.apart_from or job.label) or floor.room.find(replace(job, apart_from=(), label=""), tasks) is None:
        return ""
    hosts: list[str] = []
    labels: set[str] = set()
    for name in sorted(floor.there):
        others = [held.running.job for held in floor.there[name].values()]
        others = [one for one in others if one.project == job.project and one.id != job.id]
        shunned = {one.label for one in others} & set(job.apart_from)
        shunning = bool(job.label) and any(job.label in one.apart_from for one in others)
        if (shunned or shunning) and floor.has_place(name, job):
            hosts.append(name)
            labels |= shunned
    if not hosts:
        return ""
    whose = (
        f"labelled {listed(sorted(labels), 'or')}, which it keeps apart from"
        if labels
        else f"that keeps apart from those labelled {job.label}"
    )
    where = f"{'' if len(hosts) == 1 else 'each of '}{listed(hosts, 'and')}"
    return f"there is room for {needs_text(job, tasks)}, but on {where} runs a job {whose}"


def claim_sentence(claim: Claim) -> str:
    if claim.forced:
        many = len(claim.yielding)
        who = "1 job gives back what it holds" if many == 1 else f"{many} jobs give back what they hold"
        return f"its place is being made: {who}"
    if claim.owed:
        return _owed_sentence(claim)
    return "its place is reserved for when the jobs that hold it are done"


def _owed_sentence(claim: Claim) -> str:
    """Who borrows what a job's queue is owed, and when it is asked back: nothing of whose jobs those are."""
    mine, held = claim.waiting.job.queue, claim.yielding.values()
    asked = Moment(claim.asked)
    others = sorted({one.lineup.name for one in held} - {mine})
    borrow = f"queue {others[0]} borrows" if len(others) == 1 else f"queues {listed(others, 'and')} borrow"
    return (
        f"{borrow} the share of queue {mine}; it is asked back at {str(asked)[:19]}Z, after the least run that every start has"
    )


def waits(job: str, kind: str, words: str, *, resource: str = "", behind: int = 0) -> Wait:
    return Wait(job=job, kind=kind, sentence=sentence(words), resource=resource, behind=behind)  # type: ignore[arg-type]


def why(memory: Memory, name: str) -> Wait | None:
    """Of any job that waits, not only of those at the front, with how many of its queue stand before it."""
    held = memory.held.get(name)
    if held is not None:
        return waits(name, "held", f"it is held back until {held.not_before}")
    waiting = memory.waiting.get(name)
    if waiting is None or waiting.line is None:
        return None
    line, tasks, before = waiting.line, waiting.line.kind.least, standing_before(waiting)
    kind, resource, words = "order", "", _order_sentence(line, before)
    if name in memory.claims:
        kind, words = "room", claim_sentence(memory.claims[name])
    elif line.parked == "quota":
        kind, (resource, words) = "quota", quota_sentence(line, tasks)
    elif line.parked == "room" or (line.parked == "behind" and not _has_room(memory, line, waiting.job)):
        kind, words = room_sentence(memory, waiting.job, tasks)
        words = (kind == "room" and apart_sentence(memory, waiting.job, tasks)) or words
    elif line.parked == "behind":
        words = "there is room, but it would delay a job whose start is reserved"
    elif line.parked == "budget":
        kind, words = "budget", f"the budget of queue {line.lineup.name} for 30 days is spent or promised"
    elif line.parked == "closed":
        kind, words = "queue-closed", closed_sentence(line)
    elif line.parked == "never":
        kind, resource, words = never(memory, line)
    return waits(name, kind, words, resource=resource, behind=before)


def _has_room(memory: Memory, line: Line, job: Job) -> bool:
    """On cards of models that it has quota for."""
    narrow = memory.narrowed(line, job, line.kind.least)
    return narrow is not None and memory.floor.room.find(narrow, line.kind.least) is not None


def _order_sentence(line: Line, before: int) -> str:
    return f"{counted(before, 'job')} of queue {line.lineup.name} {'is' if before == 1 else 'are'} before it"


def closed_sentence(line: Line) -> str:
    word = "was removed" if line.lineup.queue is None else "is closed"
    return f"queue {line.lineup.name} {word}: submit it to another, or wait until it is open again"


def never(memory: Memory, line: Line) -> tuple[str, str, str]:
    """Kind, resource and sentence of one that neither quota nor hosts could take as they are."""
    by_quota = never_by_quota(line)
    if by_quota is not None:
        return "never", *by_quota
    kind, sentence = room_sentence(memory, line.kind.sample, line.kind.least)
    return (kind, "", sentence) if kind != "room" else ("never", "", line.kind.obstacle or sentence)


def standing_before(waiting: Waiting) -> int:
    """How many of its queue are before it; counts them all, so it is for those who ask, not for every round."""
    line = waiting.line
    assert line is not None  # nosec B101 - said for the types alone
    lineup = line.lineup
    mine = lineup.place(waiting)
    return sum([lineup.place(one) < mine for other in lineup.lines.values() for one in other.all()])
