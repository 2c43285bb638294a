"""A whole import, step by step, and what came of it."""

from collections.abc import Sequence
from pathlib import Path

from falaj.base.errors import Invalid, NotFound
from falaj.cli.importing.bringing import Bringing
from falaj.cli.importing.counting import KINDS, Counting, Report, Row, look
from falaj.cli.importing.journal import Journal
from falaj.cli.importing.progress import Bars
from falaj.cli.importing.records import Source
from falaj.cli.importing.registering import Registering
from falaj.cli.importing.server import ServerSource
from falaj.cli.importing.store import DatabaseSource
from falaj.cli.importing.target import Target

MOST_NAMED = 10


def opened(uri: str, *, artifacts: Path | None, workspace: str) -> ServerSource | DatabaseSource:
    """The source behind an address."""
    if uri.startswith(("http://", "https://")):
        if artifacts is not None:
            raise Invalid("A server sends its artifacts itself: leave --artifacts out.")
        return ServerSource(uri, workspace=workspace)
    return DatabaseSource(uri, artifacts=artifacts, workspace=workspace)


def seen(source: Source, wanted: Sequence[str]) -> tuple[Row, ...]:
    """What would come over; points and files are only counted when they do."""
    _require(source, wanted)
    counted = look(source, wanted)
    return tuple(Row(kind=kind, there=counted[kind], here=0) for kind in KINDS if kind not in ("metric points", "artifacts"))


def bring(source: ServerSource | DatabaseSource, target: Target, journal: Journal, wanted: Sequence[str]) -> Report:
    _require(source, wanted)
    with Bars() as bars:
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
        remarks=(*_remarks(source, bringing), *registering.remarks),
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


def _remarks(source: ServerSource | DatabaseSource, bringing: Bringing) -> list[str]:
    found = [
        f"The artifacts of {count} runs or models lie in {place}, out of reach from here: name their directory with "
        "--artifacts, or import from the running MLflow server."
        for place, count in sorted(bringing.beyond.items())
    ]
    if isinstance(source, DatabaseSource) and not source.artifacts.found and not bringing.counted["artifacts"] and not found:
        found.append(f"No artifacts were found below {source.artifacts.root}; if there are any, say --artifacts DIR.")
    return found
