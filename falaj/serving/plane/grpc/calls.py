"""gRPC on a stream: messages with five bytes before each, one or many, plain or compressed."""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from falaj.base.errors import FalajError, Invalid, TooLarge, Unavailable
from falaj.serving.plane.asking import Answer, DeadlinePassed
from falaj.serving.plane.grpc.answers import Answers, encode_stream_error
from falaj.serving.plane.grpc.receiving import Receiving
from falaj.serving.plane.grpc.statuses import (
    ANSWER_END,
    ANSWER_HEAD,
    UNIMPLEMENTED,
    Refusal,
    error_alone,
    error_end,
    words_of,
)
from falaj.serving.plane.grpc.streams import Stream

logger = logging.getLogger(__name__)

Message: TypeAlias = bytes | memoryview
# What a method does with a message. It replies, now or later, and does not raise.
Handler: TypeAlias = Callable[[Any, Message], None]

_PREFIX: Final = struct.Struct(">BI")
_LARGE: Final = 1024  # from here on an answer that has to wait must find room in what the worker may hold
_MOST_UNSENT: Final = 1024 * 1024  # of one stream of answers, before further requests of it are taken
_FROM_ANYBODY: Final = 16 * 1024  # bytes of a message; larger ones are taken from those who may ask
# A bomb unfolds to a thousand times its size. Tensors full of zeros do so too, but are not that large.
_MOST_UNFOLDED: Final = 4 * 1024 * 1024
_MOST_TIMES: Final = 32


class Method:
    """`limit` is of one message's bytes. `admit` is asked about the caller's token and address before a message that is large,
    or may become so, is received; it gives the project, and raises where the message need not come."""

    __slots__ = ("admit", "handle", "limit", "streams")

    def __init__(
        self, handle: Handler, limit: int, *, streams: bool = False, admit: Callable[[str, str], str] | None = None
    ) -> None:
        self.handle = handle
        self.limit = limit
        self.streams = streams
        self.admit = admit


class CallHead:
    """The head of a call that was understood; `seconds` are the client's deadline, counted from when the head came. The same
    one serves all calls that begin alike, so that its token is looked at once: `project` is empty until then."""

    __slots__ = (
        *("answers", "compressed", "eager", "handle", "key", "length"),
        *("method", "override", "project", "seconds", "token"),
    )

    def __init__(
        self,
        method: Method,
        answers: Answers,
        *,
        length: int = -1,
        token: str = "",
        key: str = "",
        override: str = "",
        seconds: float | None = None,
        compressed: bool = False,
    ) -> None:
        self.method = method
        self.handle = method.handle
        self.answers = answers
        self.length = length
        self.token = token
        self.key = key
        self.override = override
        self.seconds = seconds
        self.compressed = compressed
        self.eager = method.streams
        self.project = ""

    def open(self, connection: Receiving, id: int, window: int, arrived: float) -> Stream:
        kind = StreamCall if self.eager else UnaryCall
        return kind(connection, self, id, window, arrived)

    def deadline(self, arrived: float) -> float | None:
        return None if self.seconds is None else arrived + self.seconds


class RefusedHead:
    """The head of a call that is answered at once: nothing of its content is wanted."""

    __slots__ = ("eager", "length", "project", "refusal")

    def __init__(self, refusal: bytes, length: int = -1) -> None:
        self.refusal = refusal
        self.length = length
        self.eager = True
        self.project = ""

    def open(self, connection: Receiving, id: int, window: int, arrived: float) -> Stream:
        return RefusedCall(connection, self, id, window, arrived)


class RefusedCall(Stream):
    head: RefusedHead

    def begin(self) -> None:
        self.over = True
        self.connection.finish(self, self.head.refusal)


class Call(Stream):
    """What calls with one message and with many have in common."""

    head: CallHead
    raw = True

    def _take(self, size: int) -> bool:
        """Counts bytes that wait for the rest of their message; where there is no room the call is refused."""
        if self.connection.share_of(self).take(size):
            self.held += size
            return True
        self.refuse(Unavailable("too many large requests wait on this server; try again later"))
        return False

    def _read_prefix(self, data: bytes | bytearray) -> tuple[int, int]:
        """Whether the message is compressed, and its size. Raises `Refusal`, `Invalid` and `TooLarge`."""
        flag, size = _PREFIX.unpack_from(data)
        if flag > 1:
            raise Invalid(f"a gRPC message begins with 0 or 1, not with {flag}")
        if size > self.head.method.limit:
            raise TooLarge(f"the message has {size} bytes; at most {self.head.method.limit} are taken")
        if (flag or size > _FROM_ANYBODY) and self.head.method.admit is not None:
            self._admit(self.head.method.admit)
        return flag, size

    def _admit(self, admit: Callable[[str, str], str]) -> None:
        """What it holds is its project's from now on."""
        head, before = self.head, self.share
        head.project = admit(head.token, self.source)
        self.share = None
        share = self.connection.share_of(self)
        if before is not None:
            before.give(self.held + self.unsent)
            share.hold(self.held + self.unsent)

    @property
    def source(self) -> str:
        return self.connection.source

    def _plain(self, compressed: int, message: Message) -> Message:
        if not compressed:
            return message
        if not self.head.compressed:
            raise Refusal(UNIMPLEMENTED, "the message is compressed, but no grpc-encoding says how; gzip and deflate are taken")
        return _unfold(message, min(self.head.method.limit, max(_MOST_UNFOLDED, len(message) * _MOST_TIMES)))

    def expire(self) -> None:
        self.refuse(DeadlinePassed("the request did not arrive in time"))

    def refuse(self, error: Exception) -> None:
        raise NotImplementedError


class UnaryCall(Call):
    """One message, one answer. It is itself the `Reply` of a prediction."""

    body: bytearray | None = None

    def receive(self, data: bytes, start: int, end: int, ended: bool) -> None:
        size = end - start - 5
        if ended and self.body is None and size >= 0:
            flag, length = _PREFIX.unpack_from(data, start)
            if length == size and not flag and size <= self.head.method.limit:
                self.head.handle(self, data[start + 5 : end])
                return
        try:
            self._assemble(data, start, end, ended)
        except FalajError as error:
            self.refuse(error)

    def _assemble(self, data: bytes, start: int, end: int, ended: bool) -> None:
        if self.over or not self._take(end - start):
            return
        body = self.body
        if body is None:
            body = self.body = bytearray()
        body += memoryview(data)[start:end]
        if len(body) < 5:
            if ended:
                raise Refusal(UNIMPLEMENTED, "the call has no message; this method takes one")
            return
        compressed, size = self._read_prefix(body)
        if len(body) > size + 5:
            raise Refusal(UNIMPLEMENTED, "the call has more than one message; this method takes one")
        if ended:
            if len(body) < size + 5:
                raise Invalid(f"the message should have {size} bytes and has {len(body) - 5}")
            self.head.handle(self, self._plain(compressed, memoryview(body)[5:]))

    def answer(self, answer: Answer) -> None:
        if self.gone or self.over:
            self._nobody_waits()
            return
        try:
            message = self.head.answers.encode(answer, self.raw)
        except Exception as error:
            logger.exception("an answer could not be written")
            self.refuse(error)
        else:
            self.reply(message)

    def reply(self, message: bytes) -> None:
        if self.gone or self.over:
            self._nobody_waits()
        elif len(message) > _LARGE and not self.connection.may_send(self, len(message)):
            self.refuse(Unavailable("too many large answers wait to be read from this server; try again later"))
        else:
            self.over = True
            self.connection.send_whole(self, ANSWER_HEAD, message, ANSWER_END)

    def refuse(self, error: Exception) -> None:
        if self.gone or self.over:
            self._nobody_waits()
        else:
            self.over = True
            self.connection.finish(self, error_alone(error))

    def _nobody_waits(self) -> None:
        if not self.over:
            self.over = True
            self.connection.work_ended()

    def is_working(self) -> bool:
        return self.ended and not self.over


class StreamCall(Call):
    """Many messages, each answered when it can be. So many are worked on at once and no more: the client's window stays shut
    until answers have gone out."""

    def __init__(self, connection: Receiving, head: CallHead, id: int, window: int, arrived: float) -> None:
        super().__init__(connection, head, id, window, arrived)
        self._body = bytearray()
        self._replies: set[StreamReply] = set()

    def begin(self) -> None:
        self.connection.start(self, ANSWER_HEAD.block)

    def receive(self, data: bytes, start: int, end: int, ended: bool) -> None:
        if self.over or (end > start and not self._take(end - start)):
            return
        if not self._body:
            self.arrived = self.connection.now()
        self._body += memoryview(data)[start:end]
        self._advance()

    def wants_more(self) -> bool:
        return len(self._replies) < self.connection.at_once and self.unsent < _MOST_UNSENT

    def _advance(self) -> None:
        try:
            while self.wants_more() and not self.over and self._next():
                pass
        except FalajError as error:
            self.refuse(error)
        if self.over:
            return
        if self.ended and not self._replies and not self.unsent:
            if self._body:
                self.refuse(Invalid("the stream ended inside a message"))
            else:
                self.over = True
                self.connection.finish(self, ANSWER_END.block)
        else:
            self.connection.replenish(self)

    def _next(self) -> bool:
        """Takes a message from what has come; false where there is none."""
        body = self._body
        if len(body) < 5:
            return False
        compressed, size = self._read_prefix(body)
        if len(body) < size + 5:
            return False
        message = bytes(memoryview(body)[5 : size + 5])
        del body[: size + 5]
        self.arrived = self.connection.now()
        reply = StreamReply(self, size + 5)
        self._replies.add(reply)
        self.head.handle(reply, self._plain(compressed, message))
        return True

    def done(self, reply: StreamReply, message: bytes) -> None:
        """A reply has its message."""
        self._replies.discard(reply)
        if self.over:
            if self.gone and not self._replies:
                self.connection.work_ended()
            return
        self.held -= reply.size
        self.connection.share_of(self).give(reply.size)
        if not self.connection.may_send(self, len(message)):
            self.refuse(Unavailable("too many large answers wait to be read from this server; try again later"))
            return
        self.connection.send(self, message)
        self._advance()

    def sent_all(self) -> None:
        if self._body or self.ended:
            self._advance()

    def refuse(self, error: Exception) -> None:
        """Ends the whole stream; a prediction that fails is told by its reply."""
        if not self.over:
            self.over = True
            self._let_go()
            self.connection.finish(self, error_end(error))

    def lose(self) -> None:
        super().lose()
        self.over = True
        self._let_go()

    def _let_go(self) -> None:
        for reply in self._replies:
            reply.gone = True

    def is_late(self, now: float, longest: float) -> bool:
        return bool(self._body) and self.wants_more() and now - self.arrived > longest

    def is_working(self) -> bool:
        return bool(self._replies)


class StreamReply:
    """One prediction of a stream. `size` is what its request takes of what the worker may hold."""

    __slots__ = ("arrived", "call", "gone", "head", "id", "raw", "size")

    def __init__(self, call: StreamCall, size: int) -> None:
        self.call = call
        self.head = call.head
        self.arrived = call.arrived
        self.size = size
        self.gone = False
        self.raw = True
        self.id = ""

    @property
    def source(self) -> str:
        return self.call.source

    def answer(self, answer: Answer) -> None:
        try:
            message = self.head.answers.encode_in_stream(answer, self.raw)
        except Exception as error:
            logger.exception("an answer could not be written")
            self.refuse(error)
        else:
            self.call.done(self, message)

    def refuse(self, error: Exception) -> None:
        self.call.done(self, encode_stream_error(self.id, words_of(error)))


def _unfold(message: Message, most: int) -> bytes:
    """Takes gzip and zlib's own format, which is what gRPC calls deflate."""
    unfolding = zlib.decompressobj(wbits=47)
    try:
        plain = unfolding.decompress(message, most)
    except zlib.error:
        raise Invalid("the message is said to be compressed and is not") from None
    if unfolding.unconsumed_tail:
        raise TooLarge(f"the compressed message unfolds to more than {most} bytes")
    if not unfolding.eof:
        raise Invalid("the compressed message is not whole")
    return plain
