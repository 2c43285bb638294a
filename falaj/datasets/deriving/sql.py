"""What one SELECT makes of versions: found by a data worker behind its walls and sealed there, before the transaction that
makes it a version; and not made again where the same was made of the same rows.

A column that is classified is null for everybody unless the SELECT names it, or reads whole rows; then only those may derive
who see it, and what is made of it is classified as well.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from falaj.base.errors import Invalid, Unavailable
from falaj.base.values import value
from falaj.database.work import Context, Database
from falaj.datasets.carrying import remember
from falaj.datasets.checking.running import Checker, Rules, Subject
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.datasets import create
from falaj.datasets.deriving.answering import answered, classify, made_before
from falaj.datasets.deriving.inputs import Source, derivation, one_zone, reclassified, refuse_itself, source
from falaj.datasets.features.sources import refuse_hidden
from falaj.datasets.judging import holding, publish_judged
from falaj.datasets.mentions import split
from falaj.datasets.operations.derivations import MOST_INPUTS, Derivation
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import NewPart, Parts, opened
from falaj.datasets.publishing import Draft, Placed
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset
from falaj.datasets.workers import DataWorkers
from falaj.tables.orders import KNOWN, Looked, QueryLimits, TableToRead
from falaj.tables.schemas import Schema

_LIMITS: Final = QueryLimits(rows=1)


@value
class Asked:
    """What to derive: into which dataset, by which SELECT, of which versions where not of the current ones."""

    into: str
    sql: str
    inputs: tuple[str, ...] = ()
    anew: bool = False


@value
class Plan:
    """What would be read, and whether it was before. Needs no transaction any more. `current` is the version that the dataset
    has now."""

    asked: Asked
    sources: tuple[Source, ...]
    looked: Looked
    derivation: Derivation
    zone: str
    current: int
    rules: Rules | None
    before: Found | None

    @property
    def shown(self) -> frozenset[str]:
        """Classified columns that are read."""
        return frozenset(name for one in self.sources for name in one.classes if self.looked.reads(name))

    def classes(self, columns: Sequence[str]) -> dict[str, str]:
        """Of the result: what is made of a column that is personal or sensitive is so, too."""
        shown = self.shown
        if not shown:
            return {}
        kinds = {kind for one in self.sources for name, kind in one.classes.items() if name in shown}
        kind = "sensitive" if "sensitive" in kinds else "personal"
        told = self._told_apart(columns)
        return {name: kind for place, name in enumerate(columns) if not told or self.looked.shows(place, shown)}

    def made_of(self, columns: Sequence[str]) -> list[tuple[str, str, str]]:
        """Which columns of the result came from which; an empty name stands for all of them, where that cannot be said."""
        outputs = self.looked.outputs
        if outputs is None or self.looked.wide or not self._told_apart(columns):
            return [("", str(one.dataset.id), "") for one in self.sources]
        return [
            (name, str(one.dataset.id), column)
            for one in self.sources
            for column in one.schema.names
            for name, words in zip(columns, outputs, strict=False)
            if column.lower() in words
        ]

    def _told_apart(self, columns: Sequence[str]) -> bool:
        """Whether the result has the columns that the text says: a record that is unnested is several, and moves others."""
        return self.looked.outputs is None or len(self.looked.outputs) == len(columns)


@value
class Made:
    """`part` is None where it was made before."""

    plan: Plan
    part: NewPart | None
    verdict: Verdict | None = None


class SqlDeriver:
    """Thread-safe."""

    def __init__(
        self, database: Database, parts: Parts, workers: DataWorkers, sight: Sight, checker: Checker, verdicts: Verdicts
    ) -> None:
        self._database = database
        self._parts = parts
        self._workers = workers
        self._sight = sight
        self._checker = checker
        self._verdicts = verdicts

    def planned(self, context: Context, asked: Asked) -> Plan:
        """Opens no transaction to write. Raises `Invalid`, `NotFound`, `Conflict` and `Forbidden`, before anything is read."""
        looked = self._workers.looked_through(asked.sql)
        return self._database.read(lambda work: self._plan(dataclasses.replace(context, work=work), asked, looked))

    def columns(self, plan: Plan) -> Schema:
        """What the result has, found without reading the rows."""
        with ExitStack() as stack:
            sql = f"SELECT * FROM (\n{plan.asked.sql}\n) LIMIT 0"  # nosec B608 - confined
            return self._workers.query_rows(_tables(stack, plan), sql, limits=_LIMITS).schema

    def made(self, context: Context, plan: Plan) -> Made:
        """Outside of any transaction."""
        if plan.before is not None:
            return Made(plan=plan, part=None)
        project = context.required_project
        with ExitStack() as stack:
            part = self._parts.make_of(project, plan.zone, _tables(stack, plan), plan.asked.sql, schema=None)
        verdict = None
        if plan.rules is not None and plan.rules.checks:
            subject = Subject(name=plan.asked.into, schema=part.facts.schema, parts=[part])
            outcomes = self._checker.run(subject, plan.rules, context.now)
            verdict = self._verdicts.made(project, plan.zone, plan.current, plan.rules.text, outcomes)
        return Made(plan=plan, part=part, verdict=verdict)

    def published(self, context: Context, made: Made, description: str = "") -> tuple[Version, bool]:
        """The version, and whether it had been made before: also by somebody else meanwhile."""
        plan = dataclasses.replace(made.plan, sources=reclassified(context, made.plan.sources))
        asked, found = plan.asked, plan.derivation
        if dataset_store.find(context.work, context.required_project.id, asked.into) is None:
            create(context, asked.into, description, plan.zone)
        dataset = required_dataset(context, asked.into, hold=True)
        one_zone(plan.sources, asked.into, dataset.zone)
        if not plan.looked.changes and not asked.anew:
            version = answered(context, dataset, found.digest, plan.classes)
            if version is not None:
                return version, True
        if made.part is None:
            raise Unavailable(f"What {asked.into!r} had of this was let go meanwhile: derive again.", delay=0.1)
        verdict = holding(context, dataset, made.verdict)
        schema = made.part.facts.schema
        draft = Draft(
            mode="overwrite",
            schema=schema,
            removed=None,
            added=[Placed(part=self._parts.enter(context, dataset.id, made.part))],
            origin=f"SQL over {', '.join(one.reference for one in found.inputs)}"[:2000],
            derivation=found,
        )
        classify(context, dataset, plan.classes(schema.names))
        remember(context, dataset.id, plan.made_of(schema.names))
        return publish_judged(context, self._verdicts, dataset, draft, verdict), False

    def _plan(self, context: Context, asked: Asked, looked: Looked) -> Plan:
        named = _named(looked.tables, asked.inputs)
        sources = tuple(source(context, self._parts, name, reference) for name, reference in named.items())
        refuse_itself(sources, asked.into)
        for one in sources:
            self._sight.refuse_blind(context, one.dataset)
            refuse_hidden(context, self._sight, one.dataset, [name for name in one.classes if looked.reads(name)])
        into = dataset_store.find(context.work, context.required_project.id, asked.into)
        inputs = [one.input() for one in sources]
        tables = [[one.name, one.known if looked.known else ()] for one in sources]
        found = derivation("sql", asked.sql.strip(), inputs, tables)
        cached = not asked.anew and not looked.changes
        return Plan(
            asked=asked,
            sources=sources,
            looked=looked,
            derivation=found,
            zone=one_zone(sources, asked.into, into.zone if into else ""),
            current=into.current if into else 0,
            rules=self._checker.rules(context, into) if into else None,
            before=made_before(context, into, found.digest) if cached else None,
        )


def _named(tables: Sequence[str], inputs: Sequence[str]) -> dict[str, str]:
    """The version that each table of the SELECT is: the one that was given by its name, or else what the name itself means."""
    if not tables:
        raise Invalid("This reads no dataset: what is derived is made of others.")
    if len(tables) > MOST_INPUTS:
        raise Invalid(f"This reads {len(tables)} datasets, and at most {MOST_INPUTS} can be put together.")
    given = {split(one)[0]: one for one in inputs}
    if len(given) < len(inputs):
        raise Invalid('A dataset is given twice: in SQL a version has a name of its own in double quotes, like "users@3".')
    if unread := sorted(given.keys() - set(tables)):
        raise Invalid(f"The query does not read {unread[0]!r}. It reads {', '.join(tables) or 'no dataset'}.")
    return {name: given.get(name, name) for name in tables}


def _tables(stack: ExitStack, plan: Plan) -> Mapping[str, TableToRead]:
    """Without the classified columns that nobody asked for."""
    found = {}
    for one in plan.sources:
        masked = [name for name in one.classes if name not in plan.shown]
        own = KNOWN in (name.lower() for name in one.schema.names)
        known = one.known if plan.looked.known and not own else None
        found[one.name] = stack.enter_context(opened(one.schema, one.parts, masked, known))
    return found
