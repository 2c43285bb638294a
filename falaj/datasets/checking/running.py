"""Running checks: each is a question to a data worker, outside of any transaction."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.checking.rules import Question, others, question
from falaj.datasets.operations.checks import Check, Outcome
from falaj.datasets.operations.versions import Finding
from falaj.datasets.parts import NewPart, Openable, Parts, opened
from falaj.datasets.store import checks as store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import schema_of
from falaj.datasets.workers import DataWorkers, WorkerFailed
from falaj.operations.messages import adapter
from falaj.tables.orders import QueryLimits, TableToRead
from falaj.tables.schemas import Schema

EXAMPLES: Final = 5  # rows of each check that are kept with a version
_SECONDS: Final = 300.0
_BYTES: Final = 1 << 20


@value
class Rules:
    """The checks of a dataset, with the current versions of other datasets that they speak of. Needs no transaction."""

    text: str
    checks: tuple[Check, ...]
    others: Mapping[str, tuple[Schema, Sequence[Openable]]]
    against: tuple[str, ...]


@value
class Subject:
    """What is held against the rules: a version, or what would become one."""

    name: str
    schema: Schema
    parts: Sequence[Openable | NewPart]


def checks_of(text: str) -> tuple[Check, ...]:
    found: tuple[Check, ...] = adapter(tuple[Check, ...]).validate_json(text) if text else ()
    return found


def text_of(checks: tuple[Check, ...]) -> str:
    return adapter(tuple[Check, ...]).dump_json(checks).decode() if checks else ""


class Checker:
    """Thread-safe."""

    def __init__(self, parts: Parts, workers: DataWorkers) -> None:
        self._parts = parts
        self._workers = workers

    def rules(self, context: Context, dataset: Found) -> Rules:
        text = store.declared(context.work, dataset.id)
        checks = checks_of(text)
        names = sorted({name for check in checks for name in others(check, dataset.name)})
        found = dataset_store.named(context.work, context.required_project.id, names) if names else ()
        rows = [(row, version_store.find(context.work, row.id, row.current)) for row in found if row.current]
        there = {
            row.name: (schema_of(version), self._parts.openable(context, version_store.parts_of(context.work, version)))
            for row, version in rows
            if version is not None
        }
        return Rules(
            text=text,
            checks=checks,
            others=there,
            against=tuple(f"{row.name}@{row.current}" for row, _ in rows if row.name in there),
        )

    def run(self, subject: Subject, rules: Rules, now: Moment, examples: int = EXAMPLES) -> tuple[Outcome, ...]:
        with ExitStack() as stack:
            tables = {subject.name: stack.enter_context(opened(subject.schema, subject.parts))}
            tables |= {name: stack.enter_context(opened(*other)) for name, other in rules.others.items()}
            return tuple(self._outcome(check, subject, tables, now, examples) for check in rules.checks)

    def _outcome(
        self, check: Check, subject: Subject, tables: Mapping[str, TableToRead], now: Moment, examples: int
    ) -> Outcome:
        """A check that cannot be run is broken: nothing is published that nobody looked at."""
        try:
            if check.kind == "refers" and check.dataset not in tables:
                raise Invalid(f"There is no dataset {check.dataset!r} with a version.")
            asked = question(check, subject.name, subject.schema, now)
            return self._asked(check, asked, tables, examples)
        except (Invalid, TooLarge, WorkerFailed) as error:
            return Outcome(finding=_finding(check, 0, "it could not be run"), broken=True, detail=str(error))

    def _asked(self, check: Check, asked: Question, tables: Mapping[str, TableToRead], examples: int) -> Outcome:
        limits = QueryLimits(seconds=_SECONDS, rows=1)
        broken = int(self._workers.query_rows(tables, asked.counts, limits=limits).rows[0][0])
        finding = _finding(check, broken, asked.says)
        if not broken or not examples:
            return Outcome(finding=finding, broken=broken > 0)
        few = QueryLimits(seconds=_SECONDS, rows=examples, bytes=_BYTES)
        try:
            shown = self._workers.query_rows(tables, f"SELECT * FROM (\n{asked.shows}\n) LIMIT {examples}", limits=few)  # nosec B608
        except TooLarge as error:  # rows that are too large to be shown
            return Outcome(finding=finding, broken=True, detail=str(error))
        return Outcome(finding=finding, broken=True, columns=shown.schema.columns, examples=shown.rows)


def _finding(check: Check, rows: int, says: str) -> Finding:
    return Finding(check=check.name, kind=check.kind, severity=check.severity, rows=rows, says=says)


def stops(outcomes: Sequence[Outcome]) -> bool:
    """Whether a version of which this was found may not be published."""
    return any(one.broken and one.finding.severity == "fail" for one in outcomes)
