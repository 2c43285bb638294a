"""Joining a declared operation to the function that does it. The types of the two are checked against each other by mypy."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.database.work import Context

Req = TypeVar("Req")
Res = TypeVar("Res")
Prepared = TypeVar("Prepared")


@value
class Bound:
    """An operation with its handler.

    `receive` and `prepare`, where there is one, run after authorisation and outside any transaction, because bytes and networks
    are slow and a write transaction is dear; what they return is the handler's third argument.
    """

    operation: Operation[Any, Any]
    handle: Callable[..., Any]
    receive: Callable[[Context, Any, Iterator[bytes]], Any] | None = None
    prepare: Callable[[Context, Any], Any] | None = None

    @property
    def in_two_steps(self) -> bool:
        return self.receive is not None or self.prepare is not None

    def first_step(self, context: Context, request: Any, chunks: Iterator[bytes] | None) -> tuple[Any, ...]:
        """Whatever comes before the transaction, as further arguments for the handler."""
        if self.receive is not None:
            return (self.receive(context, request, chunks if chunks is not None else iter(())),)
        return () if self.prepare is None else (self.prepare(context, request),)


def bind(operation: Operation[Req, Res], handle: Callable[[Context, Req], Res]) -> Bound:
    if operation.takes_bytes:
        raise TypeError(f"operation {operation.name!r} takes bytes: use bind_upload")
    return Bound(operation=operation, handle=handle)


def bind_prepared(
    operation: Operation[Req, Res],
    prepare: Callable[[Context, Req], Prepared],
    handle: Callable[[Context, Req, Prepared], Res],
) -> Bound:
    """`prepare` asks the world outside; `handle` makes the answer count."""
    return Bound(operation=operation, handle=handle, prepare=prepare)


def bind_upload(
    operation: Operation[Req, Res],
    receive: Callable[[Context, Req, Iterator[bytes]], Prepared],
    handle: Callable[[Context, Req, Prepared], Res],
) -> Bound:
    """`receive` stores the bytes under a name nobody knows; `handle` makes them count."""
    if not operation.takes_bytes:
        raise TypeError(f"operation {operation.name!r} takes no bytes: use bind")
    return Bound(operation=operation, handle=handle, receive=receive)
