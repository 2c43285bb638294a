"""What can be asked for with a job from the command line, and how its files are sent: for whatever command submits one."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from falaj.base.values import value
from falaj.cli.amounts import mib_of, seconds_of
from falaj.cli.choosing import InProject, moment_of, pair_of
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal, read_text
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Setting, Spec
from falaj.jobs.operations.words import Resources

if TYPE_CHECKING:
    from falaj.client import packing
else:
    packing = Deferred("falaj.client.packing")


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


@value
class JobOptions:
    """Each field is an option of the command that takes them."""

    name: Annotated[str, _none("What to call it; the program's name by default.")] = ""
    queue: Annotated[
        str, _none("The queue whose share it uses; yours by default.", envvar="FALAJ_QUEUE", show_envvar=False)
    ] = ""
    priority: Annotated[str, typer.Option(help="low, normal, high, urgent, or another class.")] = "normal"
    cpus: Annotated[float, typer.Option(help="CPUs of each task.")] = 1.0
    memory: Annotated[str, typer.Option(help="Memory of each task, such as 4GiB.")] = "1GiB"
    gpus: Annotated[float, typer.Option(help="GPUs of each task: whole ones, or a part of one such as 0.5.")] = 0.0
    gpu_model: Annotated[list[str] | None, _none("Only on this model. Repeatable.", metavar="MODEL")] = None
    sharing: Annotated[Literal["mps", "time"], typer.Option(help="How a part of a GPU is shared.")] = "mps"
    io: Annotated[int, _none("Weight of its host's disks and network.", min=0)] = 0
    lock: Annotated[str, _none("A requirements file with pinned versions to run with.", metavar="FILE")] = ""
    image: Annotated[str, _none("A container image to run in.")] = ""
    env: Annotated[list[str] | None, _none("A variable it sees. Repeatable.", metavar="NAME=VALUE")] = None
    secret: Annotated[list[str] | None, _none("A secret it sees as a variable. Repeatable.", metavar="NAME")] = None
    host: Annotated[list[str] | None, _none("A host it may reach. Repeatable.", metavar="NAME:PORT")] = None
    permission: Annotated[
        list[str] | None, _none("What its token may do; what a training needs by default. Repeatable.", metavar="NAME")
    ] = None
    experiment: Annotated[str, _none("The experiment that its run is in; without one, and without --writes, it has none.")] = ""
    takes: Annotated[str, _none("How long it will take, if you know, such as 2h.", metavar="SPAN")] = ""
    timeout: Annotated[str, typer.Option(help="It is ended after so long.", metavar="SPAN")] = "1d"
    deadline: Annotated[str, _none("When it should be done, such as 2026-12-01T18:00:00Z.", metavar="TIME")] = ""
    retries: Annotated[
        int, typer.Option(help="So many tries after one that failed; a lost host or making room costs none.", min=0)
    ] = 2
    grace: Annotated[int, typer.Option(help="Seconds between being asked to stop and being made to.", min=0)] = 30
    preemptible: Annotated[
        bool,
        typer.Option("--preemptible/--not-preemptible", help="Whether it may be asked to make room; if not, it cannot borrow."),
    ] = True
    reads: Annotated[
        list[str] | None, _none("What it reads: run, model, version or dataset, and its id. Repeatable.", metavar="KIND=ID")
    ] = None
    writes: Annotated[
        list[str] | None,
        _none("A file or folder below $FALAJ_OUTPUT that is kept with its run. Repeatable.", metavar="NAME"),
    ] = None
    disk: Annotated[str, typer.Option(help="Room for its files, such as 20GiB.")] = "10GiB"
    label: Annotated[str, _none("For other jobs to keep away from it.")] = ""
    apart_from: Annotated[list[str] | None, _none("Not on a host with a job of this label. Repeatable.", metavar="LABEL")] = (
        None
    )
    topology: Annotated[Literal["any", "host", "rack", "spread"], typer.Option(help="Where its tasks are to each other.")] = (
        "any"
    )
    zone: Annotated[str, _none("The zone it runs in; the project's first by default.")] = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say where, when and at what cost.")] = False
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Show what it writes until it ends.")] = True
    project: InProject = ""

    def spec(self, **rest: Any) -> Spec:
        """`rest` is what the command itself decides: what runs, in how many tasks, with which files."""
        settings = tuple(Setting(name=key, value=text) for key, text in map(pair_of, self.env or ()))
        return Spec(
            name=rest.pop("name", self.name),
            lock=read_text(self.lock) if self.lock else "",
            image=self.image,
            resources=Resources(
                cpus=self.cpus,
                memory_mib=mib_of(self.memory),
                gpus=self.gpus,
                gpu_models=tuple(self.gpu_model or ()),
                sharing=self.sharing if self.gpus % 1 else "mps",
                io=self.io,
            ),
            queue=self.queue,
            priority=self.priority,
            zone=self.zone,
            seconds=seconds_of(self.takes) if self.takes else 0,
            timeout=seconds_of(self.timeout),
            retries=self.retries,
            grace=self.grace,
            deadline=moment_of(self.deadline) if self.deadline else None,
            variables=settings,
            secrets=tuple(self.secret or ()),
            hosts=tuple(self.host or ()),
            permissions=tuple(self.permission or ()),
            experiment=self.experiment,
            topology=self.topology,
            preemptible=self.preemptible,
            inputs=tuple(declared.Input(kind=kind, id=id) for kind, id in map(pair_of, self.reads or ())),
            outputs=tuple(name.rstrip("/") for name in self.writes or ()),
            disk_mib=mib_of(self.disk),
            label=self.label,
            apart_from=tuple(self.apart_from or ()),
            **rest,
        )


def with_source(terminal: Terminal, project: str, spec: Spec, folder: Path, besides: dict[str, bytes] | None = None) -> Spec:
    """The job with its files, which are sent once it is known that the rest of it will do."""
    terminal.call(declared.PLAN_JOB, declared.Submit(project=project, spec=spec))
    return replace(spec, source=send_source(terminal, project, folder, spec.zone, besides))


def digest_of(folder: Path, besides: dict[str, bytes] | None = None) -> str:
    """By which the same files are known again, without sending them."""
    packed = packing.packed(folder, besides)
    return hashlib.sha256(packed.content).hexdigest() if packed.files else ""


def send_source(terminal: Terminal, project: str, folder: Path, zone: str, besides: dict[str, bytes] | None = None) -> str:
    """The digest by which the job names its files; `besides` are further ones, by name. Empty where there are none."""
    packed = packing.packed(folder, besides)
    if not packed.files:
        return ""
    made = terminal.call(declared.UPLOAD_SOURCE, declared.UploadSource(project=project, zone=zone), chunks=[packed.content])
    # What goes along with every job is not worth a word.
    along = [content for name, content in (besides or {}).items() if name.startswith(".")]
    own, size = packed.files - len(along), packed.size - sum(map(len, along))
    amount = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
    terminal.say(f"Sent {own} file{'' if own == 1 else 's'} of {folder.resolve()} ({amount}).")
    return made.digest
