"""What can be talked about belongs to rooms above this one; they say what there is, and what it is called."""

import re
from typing import Final, Protocol

from falaj.base.errors import NotFound
from falaj.base.values import ID_PATTERN
from falaj.collaboration.operations.words import Kind, Thing
from falaj.database.work import Context

_NUMBER: Final = r"0|[1-9][0-9]{0,15}"  # as it is written and no other way: what is said about one thing stands in one place


class Things(Protocol):
    """Names things. Looks within the context's project alone, and gives None for what is not there."""

    def label(self, context: Context, kind: str, id: str) -> str | None: ...


class Named:
    """The things of one call; each is asked for once."""

    def __init__(self, things: Things, context: Context) -> None:
        self._things = things
        self._context = context
        self._labels: dict[tuple[str, str], str | None] = {}

    def thing(self, kind: Kind, id: str) -> Thing:
        return Thing(kind=kind, id=id, label=self._label(kind, id) or "")

    def required(self, kind: Kind, id: str) -> Thing:
        """Another project's thing is missing like one that never was."""
        if (label := self._label(kind, id)) is None:
            raise NotFound(f"This project has no {kind} {id!r}.")
        return Thing(kind=kind, id=id, label=label)

    def _label(self, kind: Kind, id: str) -> str | None:
        key = (kind, id)
        if key not in self._labels:
            shape = _NUMBER if kind == "experiment" else ID_PATTERN
            self._labels[key] = self._things.label(self._context, kind, id) if re.fullmatch(shape, id) else None
        return self._labels[key]
