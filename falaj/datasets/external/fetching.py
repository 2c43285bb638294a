"""Reading what was pinned: its bytes go through a data worker into a sealed part, and are held against what was pinned."""

from collections.abc import Iterator
from typing import Final

from falaj.base.errors import Invalid, NotFound, TooLarge
from falaj.datasets.external.pins import ChangedUpstream, Pin
from falaj.datasets.external.places import OpenPlace
from falaj.datasets.external.pouring import poured
from falaj.datasets.workers import DataWorkers, MadePart
from falaj.runtimes.sandbox import Sandbox
from falaj.storage.errors import ObjectMissing
from falaj.storage.upstream import Entry, ObjectChanged
from falaj.tables.forms import Form
from falaj.tables.schemas import Schema
from falaj.tables.telling import told_form, told_key, told_schema

LARGEST: Final = 1 << 30
_SECONDS: Final = 600.0


class Fetcher:
    """Thread-safe. Opens no transaction."""

    def __init__(self, workers: DataWorkers) -> None:
        self._workers = workers
        self._sandbox = Sandbox()

    def first(self, place: OpenPlace, pin: Pin, *, key: bytes, object_id: str) -> MadePart:
        """What is there now, with the types it has there. Whoever asks closes the file."""
        try:
            return self._made(place, pin, None, key=key, object_id=object_id)
        except (Invalid, TooLarge) as error:
            raise type(error)(f"{pin.path!r} in the place {place.name!r}: {error}") from None
        except (ObjectMissing, ObjectChanged):
            raise ChangedUpstream(
                f"{pin.path!r} in the place {place.name!r} was changed while it was read: try again."
            ) from None

    def again(self, place: OpenPlace, pin: Pin, schema: Schema, digest: str, *, key: bytes, object_id: str) -> MadePart:
        """What was pinned with these columns and this content. Raises `ChangedUpstream` where it is not there any more."""
        try:
            made = self._made(place, pin, schema, key=key, object_id=object_id)
        except (ObjectMissing, NotFound):
            raise ChangedUpstream(f"{pin.path!r} in the place {place.name!r} is gone upstream since it was pinned.") from None
        except (ObjectChanged, Invalid, TooLarge):
            raise _changed(place, pin) from None
        if made.facts.digest != digest:
            made.file.close()
            raise _changed(place, pin)
        return made

    def _made(self, place: OpenPlace, pin: Pin, schema: Schema | None, *, key: bytes, object_id: str) -> MadePart:
        if pin.size > LARGEST:
            raise TooLarge(f"The file has more than {LARGEST >> 20} MiB, and one that is read where it is has at most that.")
        told = {
            "order": "make_pinned",
            "form": told_form(Form(format="arrow" if pin.form == "postgres" else "parquet", time_zone=pin.time_zone)),
            "schema": None if schema is None else told_schema(schema),
            "said": [list(one) for one in pin.said],
            "fields": pin.fields,
            "needs": list(pin.needs),
            "key": told_key(key),
            "object_id": object_id,
        }
        chunks = _bounded(self._chunks(place, pin))
        return self._workers.made(lambda into: self._workers.do(told, [into], seconds=_SECONDS, chunks=chunks))

    def _chunks(self, place: OpenPlace, pin: Pin) -> Iterator[bytes]:
        if pin.form == "postgres":
            return poured(self._sandbox, place, pin)
        return place.objects().read(Entry(path=pin.path, size=pin.size, mark=pin.mark))


def _bounded(chunks: Iterator[bytes], most: int = 16 << 30) -> Iterator[bytes]:
    taken = 0
    for chunk in chunks:
        taken += len(chunk)
        if taken > most:
            raise TooLarge(
                f"There are more than {most >> 30} GiB of it, and a table that is read where it is has at most that."
            )
        yield chunk


def _changed(place: OpenPlace, pin: Pin) -> ChangedUpstream:
    return ChangedUpstream(
        f"{pin.path!r} in the place {place.name!r} was changed upstream since it was pinned, and what it held then is not kept "
        "here. Pin its newest state (dataset refresh)."
    )
