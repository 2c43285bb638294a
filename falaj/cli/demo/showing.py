"""The whole of it: a platform in a folder, the parts that were asked for, a table and a report of what they showed."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console

from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.cli.demo import flights
from falaj.cli.demo.chapters.audit import Audit
from falaj.cli.demo.chapters.certificate import Certificate
from falaj.cli.demo.chapters.outage import Outage
from falaj.cli.demo.chapters.queues import Queues
from falaj.cli.demo.chapters.residency import Residency
from falaj.cli.demo.chapters.rollback import Rollback
from falaj.cli.demo.ground import Ground, Version
from falaj.cli.demo.playing import Shown, Step, play, summary
from falaj.cli.demo.report import report
from falaj.cli.demo.stage import Stage
from falaj.cli.demo.year import Year

_REPORT: Final = "demo.html"
_REPORT_OUTSIDE: Final = "falaj-demo.html"  # where whoever played it would not know what demo that was


class Part(Protocol):
    """A few steps, in their order; made of what the parts before it left."""

    def steps(self) -> list[Step]: ...


@value
class Ended:
    """`models` are the SHA-256 of the models' files, by number; `report` is where the report lies, unless it was removed
    with the rest."""

    shown: tuple[Shown, ...]
    seconds: float
    models: dict[int, str]
    report: str


def part(name: str, ground: Ground) -> Part:
    made: dict[str, type[Year | Audit | Outage | Rollback | Residency | Queues | Certificate]] = {
        "flights": Year,
        "audit": Audit,
        "outage": Outage,
        "rollback": Rollback,
        "residency": Residency,
        "queues": Queues,
        "certificate": Certificate,
    }
    return made[name](ground)


def show(parts: Sequence[str], *, folder: Path | None, kept: Path | None, stay: bool, quiet: bool) -> Ended:
    """Raises `Unexpected` where the platform does something else than is promised here. `quiet`: told on standard error."""
    flights.folder()  # before anything is begun
    console = Console(file=sys.stderr if quiet else sys.stdout, highlight=False, markup=False, emoji=False)
    began = time.perf_counter()
    with _ended_well(), _made(folder) as place, Stage(place, console) as stage:
        stays = "everything stays there" if folder is not None else "everything is removed at the end"
        stage.title(f"Falaj's demo, in {place}; {stays}.")
        took = stage.start()
        stage.say(f"ready after {took:.1f} s; everybody must show a token from the first second on")
        stage.say(f"The console, while it goes on: {stage.falaj('console', '--no-browser')['link']}", "bold")
        ground, played = Ground(stage), list[tuple[Part, list[Shown]]]()
        for name in parts:
            one = part(name, ground)
            played.append((one, play(stage, name, one.steps())))
        shown = [it for _, those in played for it in those]
        versions = [ground.versions[number] for number in sorted(ground.versions)]
        summary(stage, shown)
        _tell_models(stage, versions)
        year = next((one for one, _ in played if isinstance(one, Year)), None)
        is_left = not stay or kept is not None or folder is not None
        written = kept or (place / _REPORT if stay or folder is not None else Path.cwd() / _REPORT_OUTSIDE)
        written.write_text(report(shown, versions, year), encoding="utf-8")
        stage.title(f"\nThe report: {written}")
        if stay:
            _keep_open(stage)
        return Ended(
            shown=tuple(shown),
            seconds=time.perf_counter() - began,
            models={one.number: one.trained.digest for one in versions},
            report=str(written) if is_left else "",
        )


def _tell_models(stage: Stage, versions: Sequence[Version]) -> None:
    for one in versions:
        stage.say(f"model {one.number}, {one.trained.name}: SHA-256 {one.trained.digest}", "dim")
    if versions:
        stage.say("Played again, they are the same, to the byte.", "dim")


def _keep_open(stage: Stage) -> None:
    try:
        link = stage.falaj("console", "--no-browser")["link"]
        stage.title(f"The console, until you press Ctrl-C: {link}")
        signal.pause()
    except KeyboardInterrupt:
        stage.title("\nStopping.")


@contextmanager
def _made(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="falaj-demo-") as made:
            yield Path(made)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} is not empty; name a folder for the demo that is, or is not there yet.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield folder.resolve()


@contextmanager
def _ended_well() -> Iterator[None]:
    """However it is ended, nothing is left behind; and what is made is for nobody else's eyes."""
    mask = os.umask(0o077)
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.umask(mask)
