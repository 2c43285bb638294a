"""What is kept of a file or a table that stays where it is: enough to read it again, and to see whether it is the same."""

from typing import Any, Literal

from falaj.base.errors import Conflict
from falaj.base.values import Message, value
from falaj.datasets.operations.words import ExternalKind
from falaj.datasets.store.tables import Found
from falaj.operations.messages import adapter
from falaj.storage.upstream import Entry


class ChangedUpstream(Conflict):
    """What was pinned is not there any more as it was. Nothing of what is there instead was told."""


@value
class Registered(Message):
    """Which table of which place a dataset is, as its row keeps it."""

    place: str
    kind: ExternalKind
    table: str
    time_zone: str = ""
    types: dict[str, str] | None = None


@value
class Pin(Message):
    """`mark` is another one once the file is written anew; empty where nobody can tell but by reading. `said` are columns that
    the table has and the file has not, with one text for all its rows: name, type, text. `fields` are the table's columns by
    the numbers that its files give them, and `needs` those that no file may lack."""

    place: str
    form: Literal["parquet", "postgres"]
    path: str
    size: int = 0
    mark: str = ""
    time_zone: str = ""
    types: dict[str, str] | None = None
    said: tuple[tuple[str, str, str | None], ...] = ()
    fields: dict[int, str] | None = None
    needs: tuple[int, ...] = ()


@value
class Snapshot:
    """A table as it is now: its pins in their order, and which of its states that is, for people."""

    pins: tuple[Pin, ...]
    shown: str


def file_pin(registered: Registered, entry: Entry, **more: Any) -> Pin:
    """A Parquet file of the table as it is now; `more` is what the table says of it."""
    return Pin(
        place=registered.place,
        form="parquet",
        path=entry.path,
        size=entry.size,
        mark=entry.mark,
        time_zone=registered.time_zone,
        **more,
    )


def pin_of(part: Found) -> Pin:
    pin: Pin = adapter(Pin).validate_json(part.elsewhere)
    return pin


def pin_text(pin: Pin) -> str:
    return adapter(Pin).dump_json(pin).decode()


def registered_of(dataset: Found) -> Registered | None:
    if not dataset.external:
        return None
    found: Registered = adapter(Registered).validate_json(dataset.external)
    return found


def registered_text(registered: Registered) -> str:
    return adapter(Registered).dump_json(registered).decode()


def refuse_external(dataset: Found, what: str) -> None:
    """Raises `Conflict` for what changes rows, of a dataset whose rows are not kept here."""
    if (registered := registered_of(dataset)) is not None:
        raise Conflict(
            f"Dataset {dataset.name!r} is the table {registered.table!r} of the place {registered.place!r}, which is only "
            f"read: {what} there, and pin its newest state (dataset refresh)."
        )
