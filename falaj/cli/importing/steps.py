"""A whole import, step by step, and what came of it."""

from collections.abc import Sequence
from pathlib import Path

from falaj.base.errors import Invalid, NotFound
from falaj.cli.importing.bringing import Bringing
from falaj.cli.importing.counting import KINDS, Counting, Report, Row, look
from falaj.cli.importing.files import LEFT_OUT, below_its_root
from falaj.cli.importing.journal import Journal
from falaj.cli.importing.progress import Bars
from falaj.cli.importing.records import Source
from falaj.cli.importing.registering import Registering
from falaj.cli.importing.server import ServerSource
from falaj.cli.importing.store import DatabaseSource
from falaj.cli.importing.target import Target

MOST_NAMED = 10
AGAIN = "to bring them, name their directory with --artifacts DIR --fresh"


def opened(uri: str, *, artifacts: Path | None, workspace: str, files: bool = True) -> ServerSource | DatabaseSource:
    """The source behind an address. With `files` false, artifacts on a disk are left out."""
    if artifacts is not None and not files:
        raise Invalid("--artifacts and --without-artifacts exclude each other: leave one out.")
    if uri.startswith(("http://", "https://")):
        if artifacts is not None or not files:
            raise Invalid("A server sends its artifacts itself: leave --artifacts and --without-artifacts out.")
        return ServerSource(uri, workspace=workspace)
    return DatabaseSource(uri, artifacts=artifacts, workspace=workspace, files=files)


def seen(source: Source, wanted: Sequence[str]) -> tuple[Row, ...]:
    """What would come over; points and files are only counted when they do."""
    _require(source, wanted)
    counted = look(source, wanted)
    return tuple(Row(kind=kind, there=counted[kind], here=0) for kind in KINDS if kind not in ("metric points", "artifacts"))


def check(source: ServerSource | DatabaseSource, wanted: Sequence[str], *, files: bool = True) -> None:
    """Raises where an import would bring nothing of what was asked for, or no files though it should."""
    _require(source, wanted)
    if files and isinstance(source, DatabaseSource):
        _require_artifacts(source)


def bring(source: ServerSource | DatabaseSource, target: Target, journal: Journal, wanted: Sequence[str]) -> Report:
    """Comes after `check`."""
    with Bars() as bars:
        if bars.are_shown:
            for kind, count in source.totals(wanted).items():
                bars.expected(kind, count)
        # 1. Experiments are joined by name, or made.
        bringing = Bringing(source, target, journal, bars, wanted)
        folders = bringing.experiments()
        # 2. Runs come under their own ids, several at once, each with its points, its data and its files.
        linked = bringing.runs(folders)
        # 3. Logged models follow, and which run used or made which.
        bringing.logged_models(folders)
        bringing.links(linked)
        # 4. Registered models, whose versions are made of what is here now.
        registering = Registering(bringing)
        registering.bring()
        # 5. Experiments that were deleted there are deleted here.
        bringing.close(folders)
        # 6. Both sides are counted.
        counting = Counting(bringing)
        counting.experiments(folders)
        counting.models(registering.versions, registering.aliases)
    rows = tuple(Row(kind=kind, there=bringing.counted[kind], here=counting.counted[kind]) for kind in KINDS)
    return Report(
        rows=rows,
        failures=tuple(bringing.failures),
        remarks=(*_remarks(bringing), *registering.remarks),
        state=str(journal.file),
        ok=not bringing.failures and all(row.there == row.here for row in rows),
    )


def _require(source: Source, wanted: Sequence[str]) -> None:
    """Raises where an experiment that was asked for is not there: bringing nothing would look like success."""
    if not wanted:
        return
    there = {experiment.name for experiment in source.experiments()}
    if missing := sorted(set(wanted) - there):
        named = ", ".join(map(repr, sorted(there)[:MOST_NAMED])) + (" and others" if len(there) > MOST_NAMED else "")
        raise NotFound(f"This MLflow has no experiment {', '.join(map(repr, missing))}; it has {named}.")


def _require_artifacts(source: DatabaseSource) -> None:
    """Raises where not one run's folder is found: a version that is registered without its files stays without them.

    Also runs that are not wanted show that the directory is the right one.
    """
    place = source.artifacts.missing(source.places())
    if not place:
        return
    root, below = source.artifacts.root, below_its_root(place)
    looked = (
        f"This MLflow keeps artifacts in {place} and nobody said where that is on this machine"
        if root is None
        else f"No artifacts are found below {root}: neither {place} is there, copied or not, nor the folder of any other run"
    )
    raise Invalid(
        f"{looked}. Name the directory that has {below} below it with --artifacts DIR, or import from the running MLflow "
        "server; if there are no files, or none are wanted, go on with --without-artifacts."
    )


def _remarks(bringing: Bringing) -> list[str]:
    return [
        f"The artifacts of {count} runs or models were left out; {AGAIN}."
        if place == LEFT_OUT
        else f"The artifacts of {count} runs or models lie in {place}, out of reach from here; {AGAIN}, or import from the "
        "running MLflow server."
        for place, count in sorted(bringing.beyond.items())
    ]
