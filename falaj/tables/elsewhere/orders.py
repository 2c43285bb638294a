"""Orders of a data worker about tables that are elsewhere; `falaj.datasets.external` is the outside."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from falaj.tables.descriptors import Descriptor
from falaj.tables.elsewhere import delta, iceberg
from falaj.tables.elsewhere.making import Reading, make_part
from falaj.tables.telling import heard_form, heard_key, heard_schema, told_schema

Told = Mapping[str, Any]


def make_pinned(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """The source is the first descriptor, what it is sealed into the second."""
    fields = told["fields"]
    reading = Reading(
        said=[(name, word, text) for name, word, text in told["said"]],
        needs=told["needs"],
        fields=None if fields is None else {int(number): name for number, name in fields.items()},
    )
    with open(files[0], "rb", buffering=0, closefd=False) as source, open(files[1], "wb", closefd=False) as into:
        facts = make_part(
            source,
            into,
            form=heard_form(told["form"]),
            reading=reading,
            schema=None if told["schema"] is None else heard_schema(told["schema"]),
            key=heard_key(told["key"]),
            object_id=told["object_id"],
        )
    return {**facts, "schema": told_schema(facts["schema"])}


def delta_files(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """The commits are the first descriptor, the others the checkpoint before them."""
    commits = Descriptor(files[0]).read()
    return delta.files_of(io.BytesIO(commits), [Descriptor(file) for file in files[1:]])


def iceberg_snapshot(told: Told, files: Sequence[int]) -> dict[str, Any]:
    return iceberg.snapshot_of(Descriptor(files[0]).read(), told["at"])


def iceberg_manifests(told: Told, files: Sequence[int]) -> dict[str, Any]:
    return iceberg.manifests_of(Descriptor(files[0]).read())


def iceberg_files(told: Told, files: Sequence[int]) -> dict[str, Any]:
    return iceberg.files_of([Descriptor(file).read() for file in files])


ORDERS: Final[Mapping[str, Callable[[Told, Sequence[int]], dict[str, Any]]]] = {
    "make_pinned": make_pinned,
    "delta_files": delta_files,
    "iceberg_snapshot": iceberg_snapshot,
    "iceberg_manifests": iceberg_manifests,
    "iceberg_files": iceberg_files,
}
