"""`falaj queue`: who is owed what, who lends to whom, and what would be if it were otherwise."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from falaj.base.errors import Invalid
from falaj.cli.amounts import amount_told, mib_of, seconds_of, span_told
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.queue_files import read_queue_file
from falaj.cli.terminal import Terminal, read_text
from falaj.cli.transfers import STANDARD, save
from falaj.jobs.operations import nodes as declared_nodes
from falaj.jobs.operations import queues as declared
from falaj.jobs.operations.words import Resources

if TYPE_CHECKING:
    from falaj.jobs import documents
    from falaj.jobs.engines import kueue
else:
    documents, kueue = Deferred("falaj.jobs.documents"), Deferred("falaj.jobs.engines.kueue")

_AS_ABOVE: Final = " "  # what has no letter at all is shown as a dash
commands = Commands("Queues: shares of CPUs and GPUs, lent and taken back.")


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


@commands.command("apply")
def apply(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="A TOML file with all queues; - for standard input.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Set all queues, cohorts and priority classes of the platform.

    Example: falaj queue apply queues.toml --dry-run
    """
    terminal.run(declared.APPLY_QUEUES, read_queue_file(read_text(file), dry_run=dry_run), _applied(dry_run))


@commands.command("list")
def list_queues(
    terminal: Terminal,
    all: Annotated[bool, typer.Option("--all", help="Every queue of the platform, for who operates it.")] = False,
    project: InProject = "",
) -> None:
    """List queues with what they are owed, use, have borrowed and lent.

    Example: falaj queue list --project fraud
    """
    if all:
        terminal.run(declared.LIST_ALL_QUEUES, declared.LIST_ALL_QUEUES.request(), _queues)
        return
    terminal.run(declared.LIST_QUEUES, declared.ListQueues(project=project_of(terminal, project)), _queues)


@commands.command("show")
def show(
    terminal: Terminal,
    queue: Annotated[str, typer.Argument(help="The queue's name.", show_default=False)],
    project: InProject = "",
) -> None:
    """Show one queue.

    Example: falaj queue show research --project fraud
    """
    request = declared.ShowQueue(project=project_of(terminal, project), queue=queue)
    terminal.run(declared.SHOW_QUEUE, request, _queue)


@commands.command("simulate")
def simulate(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="A TOML file with other queues.", show_default=False)] = "",
    days: Annotated[int, typer.Option(help="So much of the recorded past is played.", min=1, max=90)] = 14,
    nodes: Annotated[int, _none("So many hosts more, or fewer where it is negative.")] = 0,
    like: Annotated[str, _none("The host that more are like.", metavar="NODE")] = "",
    gpus: Annotated[float, _none("With one more job now, which takes so many GPUs.", min=0)] = 0.0,
    cpus: Annotated[float, _none("With one more job now, which takes so many CPUs.", min=0)] = 0.0,
    memory: Annotated[str, typer.Option(help="What that job takes.")] = "1GiB",
    tasks: Annotated[int, typer.Option(help="How many tasks it has.", min=1)] = 1,
    queue: Annotated[str, _none("Its queue.")] = "",
    project: Annotated[str, _none("Whose it is; without it, of the project with the most jobs in its queue.")] = "",
    takes: Annotated[str, _none("How long it takes.", metavar="SPAN")] = "",
) -> None:
    """Play the past again with other queues or hosts, or the present with one more job, through the same scheduler.

    Example: falaj queue simulate more.toml --days 30
    """
    other = read_queue_file(read_text(file), dry_run=True) if file else None
    one_more = Resources(cpus=cpus or 1.0, memory_mib=mib_of(memory), gpus=gpus) if gpus or cpus else None
    scenario = declared.Scenario(
        queues=other.queues if other else (),
        cohorts=other.cohorts if other else (),
        more_nodes=nodes,
        like=like,
        resources=one_more,
        tasks=tasks,
        queue=queue,
        project=project,
        seconds=seconds_of(takes) if takes else 0,
    )
    request = declared.Simulate(scenario=scenario, days=days, now=one_more is not None)
    terminal.show(terminal.call(declared.SIMULATE_QUEUES, request, patience=600.0), _simulation)


export = commands.group("export", "Write queues as other schedulers read them.")


@export.command("kueue")
def export_kueue(
    terminal: Terminal,
    output: Annotated[str, typer.Option("--output", "-o", help="The file to write; - for standard output.")] = STANDARD,
    namespace: Annotated[str, typer.Option(help="Where jobs' pods are.")] = "falaj",
    product: Annotated[
        list[str] | None,
        _none("How nodes label the cards of a model: what nvidia.com/gpu.product says.", metavar="MODEL=LABEL"),
    ] = None,
) -> None:
    """Write all queues as YAML for Kueue; what Kueue cannot hold is said in front of it.

    Example: falaj queue export kueue --product H100=NVIDIA-H100-80GB-HBM3 -o queues.yaml
    """
    found = terminal.call(declared.LIST_ALL_QUEUES, declared.LIST_ALL_QUEUES.request())
    nodes = terminal.call(declared_nodes.LIST_NODES, declared_nodes.LIST_NODES.request())
    document = documents.Document(
        queues=tuple(one.spec for one in found.queues), cohorts=found.cohorts, priorities=found.priorities
    )
    made = kueue.compiled(document, _hosts(nodes, product or []), namespace)
    save([made.written().encode()], output)
    words = f"{len(made.objects)} objects for Kueue, {len(made.remarks)} remarks."
    terminal.told({"objects": len(made.objects), "remarks": list(made.remarks)}, words, output)


def _hosts(nodes: declared_nodes.Nodes, products: list[str]) -> "kueue.Hosts":
    pairs = [text.partition("=") for text in products]
    if wrong := next((text for text, (_, sign, label) in zip(products, pairs, strict=True) if not (sign and label)), None):
        raise Invalid(f"--product {wrong}: write it like H100=NVIDIA-H100-80GB-HBM3.")
    usable = [one for one in nodes.items if one.state != "lost"]
    return kueue.Hosts(
        cpu_milli=round(sum(one.cpus for one in usable) * 1000),
        memory_mib=sum(one.memory_mib for one in usable),
        cards=Counter(card.model for one in usable for card in one.cards),
        products={model: label for model, _, label in pairs},
    )


def _applied(dry_run: bool) -> Any:
    def render(layout: Layout, done: declared.Applied) -> None:
        would = "Would change" if dry_run else "Changed"
        layout.line(f"{would}:" if done.changes else "Nothing changes." if dry_run else "Nothing changed.")
        for line in done.changes:
            layout.line(f"  {line}")
        for line in done.remarks:
            layout.line(line)

    return render


def _queues(layout: Layout, found: declared.Queues) -> None:
    rows: list[tuple[object, ...]] = []
    for one in found.queues:
        name = one.spec.name if one.spec.open else f"{one.spec.name} (closed)"
        if not one.shares:  # what its hosts have bounds it
            rows.append((name, one.spec.cohort, "all", "", "", "", "", "", one.running, one.waiting))
        rows += [
            (
                name if first else _AS_ABOVE,
                one.spec.cohort if first else _AS_ABOVE,
                share.resource,
                *(
                    amount_told(share.resource, part)
                    for part in (share.nominal, share.used, share.borrowed, share.lent, share.free)
                ),
                one.running if first else _AS_ABOVE,
                one.waiting if first else _AS_ABOVE,
            )
            for first, share in ((number == 0, share) for number, share in enumerate(one.shares))
        ]
    layout.table(("queue", "cohort", "resource", "owed", "used", "borrowed", "lent", "free", "running", "waiting"), rows)


def _queue(layout: Layout, one: declared.Queue) -> None:
    spec = one.spec
    layout.pairs(
        [
            ("name", spec.name),
            ("cohort", spec.cohort),
            ("order", spec.order),
            ("open", spec.open),
            ("projects", spec.projects or "all"),
            ("preempts", spec.preempt),
            ("reclaims", spec.reclaim),
            ("running", one.running),
            ("waiting", one.waiting),
            ("oldest", one.oldest),
            ("fair share", f"{one.fair_share:.3f}"),
            ("spent", f"{one.spent / 1e6:.2f} of {spec.monthly_budget / 1e6:.2f}" if spec.monthly_budget else None),
        ]
    )
    rows = [
        (
            share.resource,
            *(
                amount_told(share.resource, part)
                for part in (share.nominal, share.used, share.borrowed, share.lent, share.free)
            ),
        )
        for share in one.shares
    ]
    layout.table(("resource", "owed", "used", "borrowed", "lent", "free"), rows)


def _simulation(layout: Layout, done: declared.Simulation) -> None:
    if done.start is not None:
        layout.line(f"The job would start at {str(done.start)[:19]}Z.")
    before = {one.queue: one for one in done.before}
    rows = []
    for after in done.after:
        was = before.get(after.queue)
        rows.append(
            (
                after.queue,
                after.jobs,
                *(
                    (_change(getattr(was, name) if was else None, getattr(after, name), span_told))
                    for name in ("mean_wait", "p90_wait", "mean_turnaround")
                ),
                _change(was.preemptions if was else None, after.preemptions, lambda number: f"{number:g}"),
                _change(was.gpu_use if was else None, after.gpu_use, lambda part: f"{part:.0%}"),
            )
        )
    layout.table(("queue", "jobs", "mean wait", "p90 wait", "mean turnaround", "preempted", "GPUs used"), rows)
    for remark in done.remarks:
        layout.line(remark)


def _change(before: Any, after: Any, written: Any) -> str:
    return (
        str(written(after)) if before is None or written(before) == written(after) else f"{written(before)} > {written(after)}"
    )
