"""Asking other rooms in the reader's name: what policy keeps from them is noted, and stays away."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from falaj.base.errors import Forbidden, NotFound
from falaj.base.operation import Operation, Req, Res
from falaj.database.work import Context
from falaj.lifecycle.operations.stories import Chapter, Hidden

MOST: Final = 1000  # of one list


class Reads(Protocol):
    """A plain read for whoever the context is of, as if they had called: raises what their call would. Thread-safe; leaves
    nothing in the ledger. The dispatcher's `read_for`."""

    def __call__(self, context: Context, operation: Operation[Req, Res], request: Req) -> Res: ...


class Reader:
    """One reader, while one story is gathered for them."""

    def __init__(self, reads: Reads, context: Context) -> None:
        self._reads, self._context = reads, context
        self._hidden: dict[tuple[Chapter, str], None] = {}

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        return tuple(Hidden(chapter=chapter, words=words) for chapter, words in self._hidden)

    def must(self, operation: Operation[Req, Res], request: Req) -> Res:
        return self._reads(self._context, operation, request)

    def ask(self, chapter: Chapter, operation: Operation[Req, Res], request: Req) -> Res | None:
        """None where it is not there, or not for this reader."""
        try:
            return self._reads(self._context, operation, request)
        except NotFound:
            return None
        except Forbidden as refusal:
            self._hidden[chapter, str(refusal)] = None
            return None

    def every(self, chapter: Chapter, operation: Operation[Any, Any], request: Callable[[str], Any]) -> tuple[list[Any], bool]:
        """The items of all pages, as far as there are not too many; and whether there were. `request` takes a cursor."""
        found: list[Any] = []
        page = self.ask(chapter, operation, request(""))
        while page is not None:
            found += page.items
            if not page.next or len(found) >= MOST:
                return found[:MOST], bool(page.next)
            page = self.ask(chapter, operation, request(page.next))
        return found, False

    def may(self, chapter: Chapter, operation: Operation[Any, Any], request: Any) -> bool:
        return self.ask(chapter, operation, request) is not None
