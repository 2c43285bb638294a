"""Feature views as rows keep them and as messages tell them, and finding what a caller names: only ever within his project."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import Items, Message, value
from falaj.database.work import Context, UnitOfWork
from falaj.datasets.features import store
from falaj.datasets.mentions import mentioned, split
from falaj.datasets.operations.features import ApplyView
from falaj.datasets.store import kept_features as kept
from falaj.datasets.store.tables import Found
from falaj.operations.messages import adapter
from falaj.tables.joining.views import Feature, Key, View
from falaj.tables.schemas import Column, listed

_MOST_VIEWS: Final = 10_000


@value
class Definition(Message):
    dataset: str
    keys: tuple[Key, ...]
    event: str
    known: str
    features: tuple[Feature, ...]
    time_to_live: int | None
    sql: str = ""
    source: str = ""
    function: str = ""
    lock: str = ""
    inputs: tuple[str, ...] = ()

    @property
    def derived(self) -> bool:
        """Whether its rows are made of other datasets: by SQL, or by a function."""
        return bool(self.sql or self.source)


@value
class Columns(Message):
    """The view's keys, as labels call them, and its features."""

    items: Annotated[tuple[Column, ...], Items(most=10_000)]


@value
class Chosen:
    """Some features of a version of a view."""

    row: Found
    view: View
    dataset: str
    derived: bool = False

    @property
    def reference(self) -> str:
        return f"{self.row.name}@{self.row.version}"


def defined(request: ApplyView) -> Definition:
    return Definition(
        dataset=request.dataset or f"{request.view}-rows",
        keys=request.keys,
        event=request.event,
        known=request.known,
        features=request.features,
        time_to_live=request.time_to_live,
        sql=request.sql,
        source=request.python.source if request.python else "",
        function=request.python.function if request.python else "",
        lock=request.python.lock if request.python else "",
        inputs=request.inputs,
    )


def definition_text(definition: Definition) -> str:
    return adapter(Definition).dump_json(definition).decode()


def definition_of(row: Found) -> Definition:
    return _read(row.definition)


def pinned(work: UnitOfWork, project: str, dataset: str) -> frozenset[int]:
    """The versions of a dataset that views name by their numbers. Those that rows of views were derived from are kept by
    lineage."""
    found = [split(_read(text).dataset) for text in store.definitions_over(work, project, dataset)]
    return frozenset(int(word) for name, word in found if name == dataset and word.isdecimal())


def views_reading(work: UnitOfWork, project: str, dataset: str) -> list[str]:
    """The names of views whose newest version reads some version of this dataset."""
    found = [(row.name, definition_of(row)) for row in store.list_after(work, project, "", _MOST_VIEWS)]
    return [
        name for name, one in found if dataset in {split(word)[0] for word in (one.dataset, *one.inputs, *mentioned(one.sql))}
    ]


def columns_text(columns: Sequence[Column]) -> str:
    return adapter(Columns).dump_json(Columns(items=tuple(columns))).decode()


def columns_of(text: str) -> tuple[Column, ...]:
    found: Columns = adapter(Columns).validate_json(text)
    return found.items


def view_of(name: str, definition: Definition) -> View:
    return View(
        name=name,
        keys=definition.keys,
        event=definition.event,
        known=definition.known,
        features=definition.features,
        time_to_live=definition.time_to_live,
    )


def required_view(context: Context, reference: str) -> Found:
    """By name, or by name and version such as `clicks@2`."""
    name, _, version = reference.partition("@")
    found = store.find(context.work, context.required_project.id, name, int(version) if version else None)
    if found is None:
        raise NotFound(f"There is no feature view {reference!r} here.")
    return found


def required_served(context: Context, reference: str) -> Found:
    """The newest version of which values are kept for serving, or this one."""
    name, _, version = reference.partition("@")
    found = kept.find_served(context.work, context.required_project.id, name, int(version) if version else None)
    if found is None:
        required_view(context, reference)
        raise Conflict(
            f"Feature view {reference!r} was not materialised yet: do that first (`falaj feature materialise {reference}`)."
        )
    return found


def chosen(context: Context, references: Sequence[str], find: Callable[[Context, str], Found] = required_view) -> list[Chosen]:
    """The views that features are asked of, each once, in the order they are named; of each the features that are asked for."""
    asked: dict[str, list[str]] = {}
    for reference in references:
        view, _, feature = reference.partition(":")
        asked.setdefault(view, []).append(feature)
    rows = [find(context, view) for view in asked]
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"Features are asked of more than one version of view {listed(tuple(twice))}: choose one.")
    return [_chosen(row, features) for row, features in zip(rows, asked.values(), strict=True)]


def _chosen(row: Found, features: Iterable[str]) -> Chosen:
    definition = definition_of(row)
    view, wanted = view_of(row.name, definition), dict.fromkeys(features)
    known = {feature.name: feature for feature in view.features}
    if missing := tuple(name for name in wanted if name and name not in known):
        raise NotFound(f"View {row.name!r} has no feature {listed(missing)}. There are {listed(tuple(known))}.")
    if "" not in wanted:
        view = dataclasses.replace(view, features=tuple(known[name] for name in wanted))
    return Chosen(row=row, view=view, dataset=definition.dataset, derived=definition.derived)


def _read(definition: str) -> Definition:
    found: Definition = adapter(Definition).validate_json(definition)
    return found
