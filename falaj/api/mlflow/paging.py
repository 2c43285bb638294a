"""Pages of another size than the operation's own: MLflow lets its clients ask for more at once."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T", covariant=True)
LARGEST = 1000


class Page(Protocol[T]):
    @property
    def items(self) -> tuple[T, ...]: ...

    @property
    def next(self) -> str: ...


def gathered(wanted: int, cursor: str, ask: Callable[[int, str], Page[T]]) -> tuple[list[T], str]:
    """Up to `wanted` items from `cursor` on, asked for in pages that the platform gives, and the cursor behind them."""
    found: list[T] = []
    while True:
        page = ask(min(wanted - len(found), LARGEST), cursor)
        found += page.items
        cursor = page.next
        if not cursor or len(found) >= wanted:
            return found, cursor
