"""Rows as messages, and finding what a caller names: only ever within his project."""

from collections.abc import Sequence

from falaj.base.clock import Moment
from falaj.base.errors import NotFound
from falaj.database.work import Context
from falaj.lifecycle.gates import store
from falaj.lifecycle.gates.store import Found
from falaj.lifecycle.operations.gates import GateRun, GateRuns
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found as Version
from falaj.registry.views import people


def required_run(context: Context, id: str, *, hold: bool = False) -> Found:
    found = store.find(context.work, context.required_project.id, id, hold=hold)
    if found is None:
        raise NotFound(f"There is no gate run {id} here.")
    return found


def run_shown(context: Context, row: Found) -> GateRun:
    version = version_store.ever_with_id(context.work, row.project, row.version)
    return runs_shown(context, version, [row])[0]


def runs_of(context: Context, version: Version, batch: str, rows: Sequence[Found]) -> GateRuns:
    items = runs_shown(context, version, rows)
    states = {one.state for one in items}
    return GateRuns(
        model=version.model_name,
        version=version.number,
        batch=batch,
        over="running" not in states,
        passed=states == {"passed"},
        items=items,
        words=" ".join(_why_failed(one) for one in items if one.state == "failed"),
    )


def _why_failed(run: GateRun) -> str:
    """With where to look on, for a step of a pipeline that waits for gates shows no more than this."""
    log = f" `falaj job logs {run.job[-8:]}` shows what its job wrote." if run.job else ""
    return f"The gate {run.gate} failed: {run.words}{log}"


def runs_shown(context: Context, version: Version, rows: Sequence[Found]) -> tuple[GateRun, ...]:
    persons = people(context.work, {row.created_by for row in rows})
    return tuple(
        GateRun(
            id=row.id,
            batch=row.batch,
            model=version.model_name,
            version=version.number,
            gate=row.gate,
            kind=row.kind,
            state=row.state,
            words=row.words,
            against_alias=row.against_alias,
            against=row.against,
            job=row.job,
            evidence=row.evidence,
            created=Moment(row.created),
            created_by=persons[row.created_by],
            ended=None if row.ended is None else Moment(row.ended),
        )
        for row in rows
    )
