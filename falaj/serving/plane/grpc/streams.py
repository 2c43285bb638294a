"""One request and its answer on a connection that carries many."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from falaj.serving.plane.grpc.fields import Request
from falaj.serving.plane.shares import Share

if TYPE_CHECKING:
    from falaj.serving.plane.grpc.receiving import Receiving


class Stream:
    """Made when a request's head has come. What follows of it is `receive`d, and answered through the connection.

    Attributes that most requests never change are the class's: a request is made of as few steps as can be.
    """

    window: int  # what the client lets us send
    used: int = 0  # of what we let it send; counted from the second frame on
    received: int = 0  # of content, as `content-length` counts it
    ended: bool = False  # the client has sent all
    gone: bool = False  # nobody waits for the answer
    over: bool = False  # the answer is complete, though part of it may be pending
    share: Share | None = None  # of what the worker may hold; its project's, once that matters
    held: int = 0  # bytes received that are counted there
    unsent: int = 0  # bytes to be sent that are counted there
    pending: deque[memoryview] | None = None  # to be sent as soon as the client lets us
    closing: bytes | None = None  # the trailers, after what is pending

    def __init__(self, connection: Receiving, head: Head, id: int, window: int, arrived: float) -> None:
        self.connection = connection
        self.head = head
        self.id = id
        self.window = window
        self.arrived = arrived

    def begin(self) -> None:
        """Nothing of the content has come; only where the head is `eager`."""

    def receive(self, data: bytes, start: int, end: int, ended: bool) -> None:
        """The content's next bytes are `data[start:end]`."""
        raise NotImplementedError

    def wants_more(self) -> bool:
        """Whether the client may send on, beyond what it was let so far."""
        return True

    def is_late(self, now: float, longest: float) -> bool:
        """Whether something that began to arrive has not done so in time."""
        return not self.ended and now - self.arrived > longest

    def expire(self) -> None:
        """Too late: answers with an error."""
        raise NotImplementedError

    def sent_all(self) -> None:
        """Nothing is pending any more, though the answer goes on."""

    def lose(self) -> None:
        """The client cancelled, or is no more."""
        self.gone = True

    def is_working(self) -> bool:
        """Whether somebody still works on it who does not know that nobody waits."""
        return False


class Head(Protocol):
    """A request's head that was understood; the same for every request that has the same one."""

    length: int  # of the content as the client announced it, or -1
    project: str  # the caller's, once it is known
    eager: bool  # whether something can be answered before anything of the content has come

    def open(self, connection: Receiving, id: int, window: int, arrived: float) -> Stream: ...


class Application(Protocol):
    """Who answers. `accept` depends on nothing but the request, for what it gives is remembered."""

    def accept(self, request: Request) -> Head: ...
