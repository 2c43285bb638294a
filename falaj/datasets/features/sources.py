"""The versions of datasets that views and labels are read from, with what opens them, when each part became known, and where
they may be put together."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from falaj.base.errors import Conflict, Forbidden
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.features.definitions import Chosen
from falaj.datasets.features.working import ViewToRead
from falaj.datasets.mentions import split
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.parts import Openable, Parts, opened
from falaj.datasets.sight import Sight
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.tables.schemas import Schema


@value
class Versioned:
    """A version of a dataset that can be opened without a transaction."""

    dataset: Found
    version: Found
    schema: Schema
    parts: Sequence[Openable]

    @property
    def reference(self) -> str:
        return f"{self.dataset.name}@{self.version.number}"


@value
class ViewSource:
    chosen: Chosen
    of: Versioned


def versioned(context: Context, parts: Parts, reference: str) -> Versioned:
    name, word = split(reference)
    dataset = required_dataset(context, name)
    version = required_version(context, dataset, word)
    rows = version_store.parts_of(context.work, version)
    return Versioned(dataset=dataset, version=version, schema=schema_of(version), parts=parts.openable(context, rows))


def refuse_hidden(context: Context, sight: Sight, dataset: Found, columns: Iterable[str]) -> None:
    """What the caller may not see he does not get as a feature either."""
    if hidden := sorted(set(sight.masked(context, dataset)) & set(columns)):
        raise Forbidden(
            f"{dataset.name!r} has columns that you may not see ({', '.join(hidden)}), and this would show what they hold: "
            f"ask for the permission {PERSONAL.name}.",
            rule=PERSONAL.name,
        )


def refuse_other_zones(labels: Versioned, sources: Sequence[ViewSource]) -> None:
    """Rows of two zones make none that belongs into either."""
    for source in sources:
        if source.of.dataset.zone != labels.dataset.zone:
            raise Conflict(
                f"View {source.chosen.row.name!r} reads {source.of.dataset.name!r} in the zone {source.of.dataset.zone!r}, and "
                f"the labels are kept in {labels.dataset.zone!r}: rows of two zones cannot be put together."
            )


@contextmanager
def opened_view(source: ViewSource) -> Iterator[ViewToRead]:
    known = tuple(part.row.known for part in source.of.parts)
    with opened(source.of.schema, source.of.parts) as table:
        yield ViewToRead(view=source.chosen.view, table=table, known=known)
