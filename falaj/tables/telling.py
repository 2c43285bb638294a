"""Orders and answers as JSON and back. Descriptors are told by their place among those that are sent along."""

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from falaj.tables.forms import Form
from falaj.tables.orders import PartToRead, TableToRead
from falaj.tables.schemas import Column, Schema


def told_schema(schema: Schema) -> list[list[Any]]:
    return [[column.name, column.type, column.nullable] for column in schema.columns]


def heard_schema(told: Sequence[Sequence[Any]]) -> Schema:
    return Schema(columns=tuple(Column(name=name, type=kind, nullable=nullable) for name, kind, nullable in told))


def told_form(form: Form) -> dict[str, Any]:
    return {field.name: getattr(form, field.name) for field in dataclasses.fields(form)}


def heard_form(told: Mapping[str, Any]) -> Form:
    return Form(**{**told, "columns": tuple(told["columns"]), "nulls": tuple(told["nulls"])})


def told_key(key: bytes) -> str:
    return base64.b64encode(key).decode()


def heard_key(told: str) -> bytes:
    return base64.b64decode(told)


def told_table(table: TableToRead, files: list[int]) -> dict[str, Any]:
    """Descriptors go behind those that are in `files`."""
    parts = []
    for part in table.parts:
        parts.append([len(files), told_key(part.key), part.object_id, part.renamed])
        files.append(part.file)
    return {"schema": told_schema(table.schema), "parts": parts, "masked": table.masked, "known": table.known}


def heard_table(told: Mapping[str, Any], files: Sequence[int]) -> TableToRead:
    parts = tuple(
        PartToRead(file=files[place], key=heard_key(key), object_id=object_id, renamed=renamed)
        for place, key, object_id, renamed in told["parts"]
    )
    masked, known = tuple(told["masked"]), None if told["known"] is None else tuple(told["known"])
    return TableToRead(schema=heard_schema(told["schema"]), parts=parts, masked=masked, known=known)
