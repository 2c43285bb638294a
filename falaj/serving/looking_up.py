"""What an endpoint looks up before it predicts, decided when it is deployed: which features of which views the model takes,
whether they are what its signature says, and what callers give instead."""

import json
from collections.abc import Sequence
from typing import Final

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.features.definitions import definition_of
from falaj.datasets.features.lookups import Choice, LookupViews
from falaj.lineage.graph import Node, link
from falaj.serving.forms import read_columns
from falaj.serving.states import Column
from falaj.serving.store import lookups as store
from falaj.serving.store.tables import Found
from falaj.tables.schemas import listed

_SMALL: Final = frozenset({"int8", "int16", "int32", "uint8", "uint16", "bool"})
_WHOLE: Final = _SMALL | {"uint32", "int64"}
_NUMBERS: Final = _WHOLE | {"uint64", "float32", "float64"}
# What features may be given for a column, by its type in the model's signature; one without a type takes whatever fits.
_FITTING: Final = {
    "double": _NUMBERS,
    "float": _NUMBERS,
    "long": _WHOLE,
    "integer": _SMALL,
    "boolean": frozenset({"bool"}),
    "string": frozenset({"text"}),
    "": _NUMBERS | {"text"},
}


@value
class Looked:
    """One view, and those of its features that the model takes."""

    choice: Choice
    features: tuple[str, ...]


@value
class Lookups:
    """`given` are the columns that callers send: the entities' keys, and what the model takes besides."""

    views: tuple[Looked, ...] = ()
    given: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def before(context: Context, revision: Found | None) -> tuple[str, ...]:
    """What a revision looks up, such as `clicks@2:clicks_7d`."""
    if revision is None:
        return ()
    return shown(store.of_revisions(context.work, [revision.id]).get(revision.id, ()))


def shown(rows: Sequence[Found]) -> tuple[str, ...]:
    return tuple(f"{row.name}@{row.version}:{feature}" for row in rows for feature in json.loads(row.features))


def decided(
    context: Context, views: LookupViews, references: Sequence[str], columns: Sequence[Column], *, kept: bool
) -> Lookups:
    """In a transaction. `kept`: they are those of the revision before, of which a model may take fewer. Raises where something
    cannot be looked up, is no column of the model, or is of another type."""
    if not references:
        return Lookups(given=tuple(column.name for column in columns))
    if not columns:
        raise Invalid(
            "The model's signature names no columns, so features cannot take their place: log it with a signature "
            "(mlflow.models.infer_signature) of a table."
        )
    known = {column.name: column for column in columns}
    named = {reference.partition(":")[2] for reference in references} - {""}
    if (strange := tuple(sorted(named - known.keys()))) and not kept:
        raise Invalid(f"The model takes no column {listed(strange)}, so it is not looked up. It takes {listed(tuple(known))}.")
    wished = [reference for reference in references if _is_known(reference, known)]
    found = [_taken(choice, known) for choice in views.chosen(context, wished)] if wished else []
    taken = tuple(one for one in found if one.features)
    if useless := tuple(one.choice.reference for one in found if not one.features):
        raise Invalid(f"The model takes no feature of {listed(useless)}. It takes {listed(tuple(known))}.")
    _refuse_twice(taken)
    for one in taken:
        _check_types(one, known)
    keys = _keys(taken)
    looked = {feature for one in taken for feature in one.features}
    given = (*keys, *(name for name in known if name not in looked and name not in keys))
    return Lookups(views=taken, given=given, remarks=_remarks(taken, known))


def _is_known(reference: str, known: dict[str, Column]) -> bool:
    feature = reference.partition(":")[2]
    return not feature or feature in known


def _taken(choice: Choice, known: dict[str, Column]) -> Looked:
    return Looked(choice=choice, features=tuple(column.name for column in choice.features if column.name in known))


def _refuse_twice(taken: Sequence[Looked]) -> None:
    names = [feature for one in taken for feature in one.features]
    if twice := tuple(sorted({name for name in names if names.count(name) > 1})):
        raise Invalid(f"More than one view has a feature {listed(twice)}: say whose is meant, such as clicks:{twice[0]}.")
    if keys := tuple(sorted(set(names) & {key.name for one in taken for key in one.choice.keys})):
        raise Invalid(f"{listed(keys)} is a feature and what entities are known by: rename one of them in its view.")


def _keys(taken: Sequence[Looked]) -> tuple[str, ...]:
    types: dict[str, str] = {}
    for one in taken:
        for key in one.choice.keys:
            if types.setdefault(key.name, key.type) != key.type:
                raise Invalid(
                    f"Entities are known by {key.name!r}, which is {types[key.name]} in one view and {key.type} in "
                    f"{one.choice.reference!r}: they cannot be looked up together."
                )
    return tuple(types)


def fits(kind: str, column: Column) -> bool:
    """Whether values of a type can stand in a column of a model's signature."""
    return kind in _FITTING.get(column.type, ())


def _check_types(one: Looked, known: dict[str, Column]) -> None:
    for feature in one.choice.features:
        column = known.get(feature.name)
        if column is not None and not fits(feature.type, column):
            raise Invalid(
                f"Feature {feature.name!r} of {one.choice.reference!r} is {feature.type}, and the model's column of that name "
                f"is {column.type}: change the feature, or the model's signature."
            )


def _remarks(taken: Sequence[Looked], known: dict[str, Column]) -> tuple[str, ...]:
    """Which columns take no null: an entity of which nothing is known is refused for them."""
    told = [
        f"Looks up {', '.join(one.features)} by {', '.join(key.name for key in one.choice.keys)} in {one.choice.reference}."
        for one in taken
    ]
    strict = tuple(name for one in taken for name in one.features if not known[name].takes_null)
    if strict:
        told.append(f"Where {listed(strict)} is null, as for an entity of which nothing is known, the call is refused.")
    return tuple(told)


def check_beside(context: Context, endpoint: str, mode: str, mine: Lookups, others: Sequence[Found]) -> None:
    """One call goes to any arm: all of them must be asked the same. `others` are the revisions that answer now."""
    looked = store.of_revisions(context.work, [one.id for one in others])
    if not mine.views and not looked:
        return  # what a model takes besides is seen when it is asked
    for one in others:
        theirs, is_looked_up = _given_to(one, looked.get(one.id, ())), one.id in looked
        _refuse_unlike(endpoint, f"as a {mode} this revision", (bool(mine.views), mine.given), (is_looked_up, theirs))


def check_together(context: Context, endpoint: str, revisions: Sequence[Found]) -> None:
    """Whether those that were deployed before can be asked now, and alike."""
    looked = store.of_revisions(context.work, [one.id for one in revisions])
    for one in revisions:
        for row in looked.get(one.id, ()):
            if row.deleted is not None:
                raise Conflict(f"Revision {one.number} looks up '{row.name}@{row.version}', which was deleted: deploy it anew.")
    if not looked:
        return
    first, *others = revisions
    theirs = (first.id in looked, _given_to(first, looked.get(first.id, ())))
    for one in others:
        mine = (one.id in looked, _given_to(one, looked.get(one.id, ())))
        _refuse_unlike(endpoint, f"beside revision {first.number}, revision {one.number}", mine, theirs)


def _refuse_unlike(endpoint: str, which: str, mine: tuple[bool, Sequence[str]], theirs: tuple[bool, Sequence[str]]) -> None:
    """Each is whether features are looked up, and what callers give."""
    if mine[0] != theirs[0]:  # one takes each column by itself, the other all of them together
        raise Conflict(
            f"Of two revisions of {endpoint!r} only one looks features up, so callers cannot ask both alike: {which} has to "
            "take the same. Deploy it live, under another name, or with features."
        )
    if set(mine[1]) != set(theirs[1]):
        raise Conflict(
            f"Callers of {endpoint!r} give {listed(tuple(theirs[1]))}, and not {listed(tuple(mine[1]))}: {which} has to take "
            "the same. Deploy it live, under another name, or with other features."
        )


def _given_to(revision: Found, rows: Sequence[Found]) -> tuple[str, ...]:
    keys = dict.fromkeys(key.in_labels for row in rows for key in definition_of(row).keys)
    looked = {feature for row in rows for feature in json.loads(row.features)}
    names = (column.name for column in read_columns(revision.columns))
    return (*keys, *(name for name in names if name not in looked and name not in keys))


def keep(context: Context, revision: str, endpoint: Node, mine: Lookups) -> None:
    """Written down with the revision, and in the lineage: the dataset's version, the view, the endpoint."""
    store.add(context.work, revision, [(one.choice.id, one.features) for one in mine.views])
    project = context.required_project.id
    for one in mine.views:
        view = Node(kind="view", id=one.choice.id, label=one.choice.reference)
        link(context.work, project=project, source=view, target=endpoint, relation="looked up", now=context.now)
        if one.choice.source:
            source = Node(kind="dataset", id=one.choice.source, label=one.choice.source_label)
            link(context.work, project=project, source=source, target=view, relation="features", now=context.now)
