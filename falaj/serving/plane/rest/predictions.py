"""Predictions that are asked for and answered on one connection: the path where microseconds count."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from math import prod
from typing import Any, Final

from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value
from falaj.serving.plane.asking import Answer, Ask, Core, DeadlinePassed, Given
from falaj.serving.plane.rest.answers import BINARY, JSON
from falaj.serving.plane.rest.apart import AT_ONCE, Apart
from falaj.serving.plane.rest.codec import SLICE, Asked, Body, Writer, read_infer, slices_of
from falaj.serving.plane.rest.compression import SMALL, WORTH, deflate, inflate
from falaj.serving.plane.rest.datatypes import datatype_of
from falaj.serving.plane.rest.exchanges import CLOSE, Exchange, Line
from falaj.serving.plane.rest.heads import Head
from falaj.serving.plane.rest.limits import Limits
from falaj.serving.plane.rest.records import read_records, slices_of_predictions, write_predictions

MIXED_MOST: Final = 256 * 1024  # bytes of JSON that may stand before binary tensors
_NOTHING: Final[dict[str, bytes]] = {}
_JSON_ANSWER: Final = (
    b"%bcontent-type: application/json\r\nx-falaj-revision: %d\r\nx-falaj-model-version: %d\r\n%bcontent-length: %d\r\n%b%b"
)


@value
class Written:
    """An answer's content, with the lines of the head that describe it."""

    kind: bytes
    lines: bytes
    parts: list[bytes | memoryview]


class Predictions:
    """Reads what is asked, has the core answer, and knows how to write what comes back."""

    def __init__(self, core: Core, limits: Limits, apart: Apart | None = None) -> None:
        self.core = core
        self.limits = limits
        self.writer = Writer()
        self._apart = apart

    async def read_large(self, head: Head, body: Body, plain: bool, is_wanted: Callable[[], bool]) -> Asked:
        """As `read`, for bodies that are compressed, or whose JSON would keep everybody waiting. `is_wanted` says whether
        somebody still waits for it."""
        if head.encoding:
            body = await inflate(bytes(body), head.encoding, self.limits.inflated(len(body)))
        if self._apart is None or len(body) <= AT_ONCE or head.header_length >= 0:
            return self.read(head, body, plain)
        described = self.core.describe(head.token, head.name, head.override) if plain else None
        project = self.core.admit(head.token)
        return await self._apart.read(body, self.limits.json, described, project=project, is_wanted=is_wanted)

    def read(self, head: Head, body: Body, plain: bool) -> Asked:
        """`plain` for records with column names. Raises errors of `base.errors`; keeps nothing of `body` that may change."""
        if plain:
            if head.header_length >= 0:
                raise Invalid("records are plain JSON: inference-header-content-length has no place here")
            described = self.core.describe(head.token, head.name, head.override)
            return Asked(read_records(body, described, self.limits.json), "")
        if head.header_length >= 0 and type(body) is memoryview:
            body = bytes(body)  # the buffer it lies in is used again by the next read
        if head.header_length == 0:
            return self._read_raw(head, body)
        if head.header_length > MIXED_MOST:
            raise TooLarge(f"the JSON before binary tensors has {head.header_length} bytes; at most {MIXED_MOST} are taken")
        return read_infer(body, head.header_length, self.limits.json)

    def _read_raw(self, head: Head, body: Body) -> Asked:
        """The protocol's raw form: no JSON at all, the body is the model's one input."""
        described = self.core.describe(head.token, head.name, head.version or head.override)
        if len(described.inputs) != 1:
            raise Invalid(f"a body without JSON can be for a model with one input; {head.name!r} has {len(described.inputs)}")
        spec = described.inputs[0]
        size = datatype_of(spec.datatype, spec.name).size
        known = prod(length for length in spec.shape if length >= 0) * size
        if spec.shape.count(-1) > 1 or not known or len(body) % known or (-1 not in spec.shape and len(body) != known):
            raise Invalid(f"{len(body)} bytes are not {spec.datatype} of shape {list(spec.shape)}: send JSON with the shape")
        shape = [length if length >= 0 else len(body) // known for length in spec.shape]
        asked = Asked([Given(spec.name, spec.datatype, shape, memoryview(body))], "")
        asked.all_binary = True
        return asked

    def ask(self, head: Head, asked: Asked, arrived: float, reply: Any) -> None:
        patience = head.patience
        if asked.patience is not None and (patience is None or asked.patience < patience):
            patience = asked.patience
        self.core.submit(
            Ask(
                token=head.token,
                endpoint=head.name,
                given=asked.given,
                reply=reply,
                arrived=arrived,
                version=head.version,
                wanted=asked.wanted,
                id=asked.id or head.id,
                key=head.key,
                override=head.override,
                deadline=None if patience is None else arrived + patience,
            )
        )

    async def write_large(self, answer: Answer, asked: Asked, plain: bool, is_wanted: Callable[[], bool]) -> Written:
        """As `write`, slice by slice, with everybody else's turn in between."""
        if plain:
            parts: list[bytes | memoryview] = []
            for part in slices_of_predictions(answer):
                parts.append(part)
                await _others(is_wanted)
            return Written(kind=JSON, lines=_lines(answer), parts=parts)
        written = {}
        for name, datatype, array in zip(answer.names, answer.datatypes, answer.arrays, strict=True):
            if array.size > SLICE and not asked.is_binary(name):
                slices = []
                for one in slices_of(array, datatype, name):
                    slices.append(one)
                    await _others(is_wanted)
                written[name] = b"[%b]" % b",".join(slices)
        return self.write(answer, asked, False, written)

    def write(self, answer: Answer, asked: Asked, plain: bool, written: Mapping[str, bytes] = _NOTHING) -> Written:
        lines = _lines(answer)
        if plain:
            return Written(kind=JSON, lines=lines, parts=[write_predictions(answer)])
        text, sections = self.writer.write(answer, asked, written)
        if not sections:
            return Written(kind=JSON, lines=lines, parts=[text])
        lines += b"inference-header-content-length: %d\r\n" % len(text)
        return Written(kind=BINARY, lines=lines, parts=[text, *sections])

    def infer(self, connection: Line, head: Head, body: Body, arrived: float) -> None:
        self._predict(Prediction(connection, head, arrived, self, False), body)

    def predict(self, connection: Line, head: Head, body: Body, arrived: float) -> None:
        self._predict(Prediction(connection, head, arrived, self, True), body)

    def _predict(self, reply: "Prediction", body: Body) -> None:
        head = reply.head
        if head.encoding or head.raw:  # who is known asks again with a head that is; nothing is read for strangers
            self.vet(head, reply.source)
        if head.encoding or (len(body) > AT_ONCE and head.header_length < 0):
            reply.attend(self._predict_large(reply, body))
            return
        reply.asked = self.read(head, body, reply.plain)
        self.ask(head, reply.asked, reply.arrived, reply)

    def _predict_large(self, reply: "Prediction", body: Body) -> Coroutine[Any, Any, None]:
        kept = bytes(body) if type(body) is memoryview else body  # the buffer it lies in is used again by the next read
        return self._predict_later(reply, kept)

    async def _predict_later(self, reply: "Prediction", body: Body) -> None:
        reply.asked = await self.read_large(reply.head, body, reply.plain, reply.is_wanted)
        self.ask(reply.head, reply.asked, reply.arrived, reply)

    def vet(self, head: Head, source: str) -> str:
        """Whether a body is worth receiving and reading: raises what asking would. Gives the project."""
        project = self.core.admit(head.token, source)
        self.core.is_model_ready(head.token, head.name, head.version)
        return project


def is_large(answer: Answer, asked: Asked, plain: bool) -> bool:
    """Whether writing it at once would keep everybody waiting."""
    for place, array in enumerate(answer.arrays):
        if array.size > SLICE and (plain or not asked.is_binary(answer.names[place])):
            return True
    return False


async def _others(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise DeadlinePassed("Nobody waits for the answer.")
    await asyncio.sleep(0)


def _lines(answer: Answer) -> bytes:
    told = (answer.revision, answer.version, _variant_line(answer))
    return b"x-falaj-revision: %d\r\nx-falaj-model-version: %d\r\n%b" % told


def _variant_line(answer: Answer) -> bytes:
    return b"x-falaj-variant: %b\r\n" % answer.variant.encode("ascii", "replace") if answer.variant else b""


class Prediction(Exchange):
    """The core's `Reply` on a connection."""

    __slots__ = ("asked", "plain", "predictions")

    def __init__(self, connection: Line, head: Head, arrived: float, predictions: Predictions, plain: bool) -> None:
        self.connection = connection
        self.head = head
        self.arrived = arrived
        self.gone = False
        connection.exchange = self
        self.predictions = predictions
        self.plain = plain
        self.asked: Asked

    def answer(self, answer: Answer) -> None:
        if self.connection.exchange is not self:
            return  # the client is gone, or has its answer
        try:
            if is_large(answer, self.asked, self.plain):
                self.attend(self._write_and_send(answer))
                return
            if self.plain:
                self._send(self.predictions.write(answer, self.asked, True))
                return
            text, sections = self.predictions.writer.write(answer, self.asked)
            if sections or (self.head.accepts and len(text) >= WORTH):
                self._send_with_sections(answer, text, sections)
                return
        except Exception as error:  # noqa: BLE001 - whatever it is, the core must not hear of it
            self.refuse(error)
            return
        head, connection = self.head, self.connection
        shared = connection.shared
        if head.raw:
            shared.heads.learn(head)
        keep = head.keep and not connection.parting
        connection.finish(
            _JSON_ANSWER
            % (
                shared.ok,
                answer.revision,
                answer.version,
                _variant_line(answer) if answer.variant else b"",
                len(text),
                head.ending if keep else CLOSE,
                text,
            ),
            keep,
        )

    def is_wanted(self) -> bool:
        return not self.gone

    async def _write_and_send(self, answer: Answer) -> None:
        written = await self.predictions.write_large(answer, self.asked, self.plain, self.is_wanted)
        if self.connection.exchange is self:
            self._send(written)

    def _send_with_sections(self, answer: Answer, text: bytes, sections: list[bytes | memoryview]) -> None:
        if self.head.accepts:
            self._send(self.predictions.write(answer, self.asked, False))
            return
        head, connection = self.head, self.connection
        shared = connection.shared
        if head.raw:
            shared.heads.learn(head)
        keep, size = head.keep and not connection.parting, len(text)
        start = (
            b"%bcontent-type: application/octet-stream\r\nx-falaj-revision: %d\r\nx-falaj-model-version: %d\r\n%b"
            b"inference-header-content-length: %d\r\ncontent-length: %d\r\n%b%b"
        ) % (
            shared.ok,
            answer.revision,
            answer.version,
            _variant_line(answer),
            size,
            size + sum(map(len, sections)),
            head.ending if keep else CLOSE,
            text,
        )
        connection.finish_parts([start, *sections], keep)

    def _send(self, written: Written) -> None:
        head, parts = self.head, written.parts
        size = sum(map(len, parts))
        if self.head.raw:
            self.connection.shared.heads.learn(head)
        if not head.accepts or size < WORTH:
            self._send_parts(written, parts, size)
        elif size <= SMALL:
            self._send_deflated(written, deflate(parts, head.accepts))
        else:
            self.attend(self._deflate_and_send(written))

    async def _deflate_and_send(self, written: Written) -> None:
        made = await asyncio.get_running_loop().run_in_executor(None, deflate, written.parts, self.head.accepts)
        if self.connection.exchange is self:
            self._send_deflated(written, made)

    def _send_deflated(self, written: Written, made: bytes) -> None:
        lines = b"%bcontent-encoding: %b\r\nvary: accept-encoding\r\n" % (written.lines, self.head.accepts.encode())
        self._send_parts(Written(kind=written.kind, lines=lines, parts=[made]), [made], len(made))

    def _send_parts(self, written: Written, parts: list[bytes | memoryview], size: int) -> None:
        shared = self.connection.shared
        keep = self.head.keep and not self.connection.parting
        start = b"%bcontent-type: %b\r\n%bcontent-length: %d\r\n%b" % (
            shared.ok,
            written.kind,
            written.lines,
            size,
            self.head.ending if keep else CLOSE,
        )
        self.connection.finish_parts([start, *parts], keep)
