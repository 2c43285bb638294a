"""The skew audit: what was served is held against what the same view gives offline, bit for bit, and every difference is told
with its likely cause.

Offline means a training set of the moment at which it was served, over the rows as they are now. Where that differs, the same
is asked of the version and moment that were materialised then, and of the version that was current then: these say why.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, NotFound
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.features.definitions import Chosen, chosen, definition_of, required_served, required_view, view_of
from falaj.datasets.features.replaying import Answer, Question, Replayer, nothing
from falaj.datasets.features.served import Entry, Served, ServedLog
from falaj.datasets.features.sources import ViewSource, versioned
from falaj.datasets.features.values import shown
from falaj.datasets.mentions import split
from falaj.datasets.operations import features as declared
from falaj.datasets.parts import Parts
from falaj.datasets.sight import Sight
from falaj.datasets.store import kept_features as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset
from falaj.tables import types
from falaj.tables.joining.told import telling
from falaj.tables.schemas import Column

MOST_CALLS: Final = 5000
AT_ONCE: Final = 20
MOST_VERSIONS: Final = 40  # that are read for one audit, each twice at most
_FIRST: Final = Moment(0)


@value
class One:
    """An entity as it was served: in which call, and out of what its row was made."""

    call: Served
    entry: Entry

    @property
    def of(self) -> int:
        return self.call.of if self.entry.of is None else self.entry.of

    @property
    def source(self) -> str:
        """Empty where it is not known: whoever looked it up does not know what was read for it."""
        return self.entry.source if self.entry.of is not None else self.call.source


@value
class Audited:
    """What is looked at, newest first, and what may not be shown of it."""

    one: Chosen
    dataset: Found
    hidden: frozenset[str]
    logged: tuple[One, ...]
    calls: int
    more: bool


class AuditService:
    def __init__(self, database: Database, parts: Parts, log: ServedLog, replayer: Replayer, sight: Sight) -> None:
        self._database = database
        self._parts = parts
        self._log = log
        self._replayer = replayer
        self._sight = sight

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.AUDIT_VIEW, self.audit, _told)]

    def audit(self, context: Context, request: declared.AuditView) -> declared.FeatureAudit:
        audited = self._database.read(lambda work: self._read(dataclasses.replace(context, work=work), request))
        found = list(self._differences(context, audited))
        causes: dict[str, int] = {}
        for one in found:
            causes[one.cause] = causes.get(one.cause, 0) + 1
        return declared.FeatureAudit(
            view=audited.one.reference,
            calls=audited.calls,
            entities=len(audited.logged),
            causes=causes,
            differences=tuple(found[: request.most]),
            more=audited.more,
        )

    def _read(self, context: Context, request: declared.AuditView) -> Audited:
        find = required_view if "@" in request.view else required_served
        one = chosen(context, [request.view], find)[0]
        dataset = required_dataset(context, split(one.dataset)[0])
        since, until = request.since or _FIRST, request.until or context.now
        logged: list[One] = []
        versions, calls, more = set[str](), 0, False
        for row in _logged(context, one.row.id, since, until):
            call = self._log.opened(context, row)
            enough = calls >= MOST_CALLS or len(logged) >= request.limit
            if enough or call.dataset != dataset.id or len(versions | {call.source}) > MOST_VERSIONS:
                more = True
                break
            versions.add(call.source)
            logged += [One(call=call, entry=entry) for entry in call.entries]
            calls += 1
        hidden = frozenset(self._sight.masked(context, dataset))
        context.facts["view"] = one.row.id
        return Audited(
            one=one,
            dataset=dataset,
            hidden=hidden,
            logged=tuple(logged[: request.limit]),
            calls=calls,
            more=more or len(logged) > request.limit,
        )

    def _differences(self, context: Context, audited: Audited) -> Iterator[declared.Difference]:
        now = self._asked(context, audited, [(one, audited.one.dataset, one.call.at) for one in audited.logged])
        differing = [one for one, said in zip(audited.logged, now, strict=True) if list(_unlike(one, said))]
        offline = dict(zip(map(id, audited.logged), now, strict=True))
        current = self._current
        sources = [(one, one.source or current(context, audited, one.of), one.of) for one in differing]
        made = self._asked(context, audited, sources, served=True)
        then = self._asked(context, audited, [(one, current(context, audited, one.call.at), one.call.at) for one in differing])
        for one, as_made, as_then in zip(differing, made, then, strict=True):
            yield from _told_differences(audited, one, offline[id(one)], as_made, as_then)

    def _asked(
        self, context: Context, audited: Audited, asked: Iterable[tuple[One, str, int]], *, served: bool = False
    ) -> list[Answer | None]:
        """What the view says of entities, each by a version of the dataset and at a moment; None where the version is gone. As
        `served`: what was too old when it was asked for is nothing."""
        questions = list(asked)
        answers: list[Answer | None] = [None] * len(questions)
        for reference in dict.fromkeys(reference for _, reference, _ in questions if reference):
            places = [place for place, (_, other, _) in enumerate(questions) if other == reference]
            those = [Question(keys=questions[place][0].entry.keys, at=questions[place][2]) for place in places]
            found = self._replayed(context, audited, reference, questions[places[0]][0].call.keys, those)
            for place, one in zip(places, found, strict=True):
                answers[place] = nothing(one) if served and _is_old(audited, questions[place][0], one) else one
        return answers

    def _replayed(
        self, context: Context, audited: Audited, reference: str, keys: Sequence[Column], asked: Sequence[Question]
    ) -> Sequence[Answer | None]:
        view = view_of(audited.one.row.name, definition_of(audited.one.row))

        def opened(inside: Context) -> ViewSource:
            whole = dataclasses.replace(audited.one, view=view)
            return ViewSource(chosen=whole, of=versioned(inside, self._parts, reference))

        try:
            source = self._database.read(lambda work: opened(dataclasses.replace(context, work=work)))
            return self._replayer.answers(source, keys, asked)
        except (NotFound, Invalid):  # pruned, or without the columns that the view needs
            return [None] * len(asked)

    def _current(self, context: Context, audited: Audited, at: int) -> str:
        """The version that was current at a moment."""
        name, word = split(audited.one.dataset)
        if word.isdecimal():
            return audited.one.dataset
        number = self._database.read(lambda work: version_store.current_at(work, audited.dataset.id, at))
        return f"{name}@{number}" if number else ""


def _logged(context: Context, view: str, since: Moment, until: Moment) -> Iterator[Found]:
    """Newest first, a few at a time: each may be large."""
    behind: Found | None = None
    while some := store.logged(context.work, view, since, until, AT_ONCE, behind):
        yield from some
        behind = some[-1]


def _is_old(audited: Audited, one: One, said: Answer | None) -> bool:
    lives = definition_of(audited.one.row).time_to_live
    return said is not None and lives is not None and said.event is not None and said.event <= one.call.at - lives


def _unlike(one: One, said: Answer | None) -> Iterator[tuple[int, str]]:
    """The served features that are others there, by their places and names; all of them where nothing can be said."""
    for place, column in enumerate(one.call.features):
        if said is None or column.name not in said.values:
            yield place, column.name
            continue
        kind, offline = said.values[column.name]
        if _bits(one.entry.values[place], column.type) != _bits(offline, kind):
            yield place, column.name


def _bits(one: Any, kind: str) -> Any:
    """What is equal only for the same bits, and for the same number in a wider type."""
    if one is None or kind in ("float64", "float32"):
        change = telling(types.parse("float64"))
        return None if one is None or change is None else change(one)
    if type(one) is int:
        return one
    return repr(one)


def _told_differences(
    audited: Audited, one: One, offline: Answer | None, as_made: Answer | None, as_then: Answer | None
) -> Iterator[declared.Difference]:
    wrong, stale = dict(_unlike(one, as_made)), dict(_unlike(one, as_then))
    columns = {feature.name: feature.column for feature in definition_of(audited.one.row).features}
    keys = {key.in_labels: key.column for key in definition_of(audited.one.row).keys}
    for place, name in _unlike(one, offline):
        cause: declared.Cause
        said: Answer | None
        if as_made is not None and place in wrong:
            cause, said = "wrong" if one.source else "unknown", as_made
        elif as_then is not None and place in stale:
            cause, said = "stale", as_then
        elif as_made is None or as_then is None:
            cause, said = "unknown", offline
        else:
            cause, said = "changed", offline
        masked = columns.get(name, "") in audited.hidden
        entity = {
            column.name: None if keys.get(column.name) in audited.hidden else shown(key, types.parse(column.type))
            for column, key in zip(one.call.keys, one.entry.keys, strict=True)
        }
        yield declared.Difference(
            at=one.call.at,
            moment=Moment(one.of),
            source=one.source,
            entity=entity,
            feature=name,
            served=None if masked else shown(one.entry.values[place], types.parse(one.call.features[place].type)),
            offline=None if masked or said is None else _shown(said.values, name),
            cause=cause,
            masked=masked,
        )


def _shown(values: Mapping[str, tuple[str, Any]], name: str) -> Any:
    kind, one = values.get(name, ("unknown", None))
    return shown(one, types.parse(kind))


def _told(_: Context, __: object, found: declared.FeatureAudit) -> declared.FeatureAudit:
    return found
