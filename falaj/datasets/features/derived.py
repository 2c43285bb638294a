"""Views over SQL, or over what a function makes of datasets: their rows are a dataset of their own, derived anew where what
they are made of has newer versions.

The platform derives SQL itself. A function runs in a job, which somebody has to submit: here is only seen that it did.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from falaj.base.errors import Conflict, Invalid, Unavailable
from falaj.database.work import Context, Database
from falaj.datasets.deriving.answering import made_before
from falaj.datasets.deriving.functions import derived_by
from falaj.datasets.deriving.sql import Asked, Made, SqlDeriver
from falaj.datasets.features.definitions import Chosen, Definition, chosen, definition_of
from falaj.datasets.operations.derivations import FunctionUsed, code_digest
from falaj.datasets.operations.deriving import DERIVE, Derive
from falaj.datasets.operations.versions import Version
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import derivations as derivation_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import schema_of
from falaj.governance.ledger import recording
from falaj.tables.schemas import Schema

_LONGEST_NAME: Final = 100


class DerivedViews:
    """Thread-safe."""

    def __init__(self, database: Database, deriver: SqlDeriver, sight: Sight) -> None:
        self._database = database
        self._deriver = deriver
        self._sight = sight

    def fresh(self, context: Context, references: Sequence[str]) -> dict[str, str]:
        """By the ids of the views among these that are derived, the version that has their rows as they are now. Outside of any
        transaction: what is new is one of its own, on record."""
        views = self._database.read(lambda work: chosen(dataclasses.replace(context, work=work), references))
        return {one.row.id: self.rows_of(context, one.row.name, definition_of(one.row)) for one in views if one.derived}

    def columns(self, context: Context, view: str, definition: Definition) -> Schema:
        """Of a derived view's rows, found without reading them. Raises `Invalid` and `Conflict` for what cannot be one."""
        refuse_unlike_view(view, definition)
        self._database.read(lambda work: _refuse_others_rows(dataclasses.replace(context, work=work), view, definition))
        if definition.sql:
            return self._deriver.columns(self._deriver.planned(context, _asked(definition)))
        found = self._database.read(lambda work: self._made(dataclasses.replace(context, work=work), view, definition))
        return schema_of(found)

    def rows_of(self, context: Context, view: str, definition: Definition) -> str:
        """The version that has them. Raises `Conflict` where they are in quarantine, or a function has not made them yet."""
        if not definition.sql:
            found = self._database.read(lambda work: self._made(dataclasses.replace(context, work=work), view, definition))
            return f"{definition.dataset}@{found.number}"
        plan = self._deriver.planned(context, _asked(definition))
        if plan.before is not None and not plan.shown:
            return f"{definition.dataset}@{plan.before.number}"
        made = self._deriver.made(context, plan)
        version = self._database.write(
            lambda work: self._recorded(dataclasses.replace(context, work=work), view, definition, made)
        )
        if version.quarantined:
            broken = "; ".join(f"{one.check}: {one.says}" for one in version.findings)
            raise Conflict(
                f"The rows of view {view!r} broke checks of {version.dataset!r} and are in quarantine as version "
                f"{version.version} ({broken}): release or drop them, or mend what they are made of."
            )
        return f"{version.dataset}@{version.version}"

    def _recorded(self, context: Context, view: str, definition: Definition, made: Made) -> Version:
        """As the operation that does the same for somebody who asks, in a transaction of its own."""
        _refuse_others_rows(context, view, definition)
        inside = dataclasses.replace(context, facts={})
        version, _ = self._deriver.published(inside, made, f"The rows of the feature view {view}.")
        inside.facts["inputs"] = [one.version.id for one in made.plan.sources]
        recording.append(
            context.work,
            operation=DERIVE,
            request=Derive(
                project=context.required_project.name, dataset=definition.dataset, sql=definition.sql, inputs=definition.inputs
            ),
            identity=context.identity,
            project=context.required_project.id,
            now=context.now,
            request_id=context.request_id,
            facts=inside.facts,
        )
        return version

    def _made(self, context: Context, view: str, definition: Definition) -> Found:
        """What a function made of its inputs as they are now."""
        code = code_digest(definition.source, definition.function, definition.lock)
        used = FunctionUsed(code=code, function=definition.function, inputs=definition.inputs)
        found, _ = derived_by(context, self._sight, used)
        into = dataset_store.find(context.work, context.required_project.id, definition.dataset)
        version = made_before(context, into, found.digest)
        if version is None:
            said = ", ".join(one.reference for one in found.inputs)
            raise Conflict(
                f"View {view!r} is over what the function {definition.function!r} makes of {said}, and it was not run over "
                "these yet. A job does that: falaj feature apply, training-set and materialise submit one."
            )
        return version


def rows_now(one: Chosen, fresh: Mapping[str, str]) -> str:
    """The version, or the dataset, that a view's rows are read from, with what `DerivedViews.fresh` said."""
    if one.derived and one.row.id not in fresh:
        raise Unavailable(f"View {one.row.name!r} was changed at the same moment: try again.", delay=0.1)
    return fresh.get(one.row.id, one.dataset)


def refuse_unlike_view(view: str, definition: Definition) -> None:
    if definition.sql and definition.source:
        raise Invalid(f"View {view!r} is over SQL and over a function: choose one of them.")
    if "@" in definition.dataset:
        raise Invalid(f"The rows of view {view!r} become versions of a dataset of their own: name one without a version.")
    if not definition.sql and not definition.inputs:
        raise Invalid(f"View {view!r} is over a function of no dataset: name what it reads.")
    if len(definition.dataset) > _LONGEST_NAME:
        raise Invalid(f"{definition.dataset!r} is too long for a dataset's name: say in `dataset` where its rows are kept.")
    if not definition.known:
        raise Invalid(
            f"View {view!r} is derived: its rows are made later than what they say was known. Name the column in `known` that "
            "says when it was. In SQL every table has one, _known, the moment at which its row was first published: of two "
            "tables a and b select greatest(a._known, b._known) AS known, of many rows max(_known) AS known."
        )


def _asked(definition: Definition) -> Asked:
    return Asked(into=definition.dataset, sql=definition.sql, inputs=definition.inputs)


def _refuse_others_rows(context: Context, view: str, definition: Definition) -> None:
    """What is in a dataset that somebody writes is not overwritten by a view."""
    into = dataset_store.find(context.work, context.required_project.id, definition.dataset)
    current = version_store.find(context.work, into.id, into.current) if into is not None and into.current else None
    if current is not None and not derivation_store.of_versions(context.work, [current.id]):
        raise Conflict(
            f"The rows of view {view!r} would be kept in {definition.dataset!r}, which has others that were not derived: name "
            "another dataset for them."
        )
