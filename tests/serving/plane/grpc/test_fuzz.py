"""Whatever bytes come, in whatever pieces: the connection answers, ignores or parts, and nothing stays behind."""

import asyncio
import itertools
import struct
from typing import Any

import hpack
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.face import GrpcFace
from falaj.serving.plane.grpc.limits import MIB, Limits
from falaj.serving.plane.grpc.messages import ModelInferResponse
from tests.serving.plane.grpc.arithmetic import ArithmeticCore
from tests.serving.plane.grpc.peer import LIVE, STREAM, ask, message, request_fields

GREETING = frames.PREFACE + frames.settings({})
LIMITS = Limits(held=4 * MIB, message=MIB)


class Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        found, position = [], 0
        while position < len(self.written):
            high, low, kind, flags, stream = frames.read_head(self.written, position)
            size = high << 8 | low
            found.append((kind, flags, stream, bytes(self.written[position + 9 : position + 9 + size])))
            position += 9 + size
        assert position == len(self.written)  # nothing but whole frames
        return found


async def feed(pieces: list[bytes]) -> tuple[Recorder, GrpcFace]:
    face = GrpcFace(ArithmeticCore(), limits=LIMITS)
    transport = Recorder()
    connection = face()
    connection.connection_made(transport)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    for _ in range(4):
        await asyncio.sleep(0)
    parted = transport.closed
    assert len(connection._rest) <= LIMITS.frame + 9
    assert len(connection._block) <= 2 * LIMITS.head + LIMITS.frame
    assert len(connection.streams) <= LIMITS.streams
    connection.connection_lost(None)
    assert face._shared.held.taken == 0
    assert not connection.streams
    assert face.connections == 0
    kinds = [frame[0] for frame in transport.frames()]
    assert parted == (frames.GOAWAY in kinds)  # whoever is closed is told why
    return transport, face


def blocks() -> st.SearchStrategy[bytes]:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    good = [encoder.encode(fields) for fields in (request_fields(), request_fields(STREAM), request_fields(LIVE), [("x", "y")])]
    return st.one_of(st.sampled_from(good), st.binary(max_size=40))


contents = st.one_of(
    st.sampled_from([message(ask()), message(ask("never")), message(b""), message(b"", 1), message(b"\xff")[:3]]),
    st.binary(max_size=60),
    st.integers(0, 2**32 - 1).map(lambda size: struct.pack(">BI", 0, size)),
)
ids = st.one_of(st.integers(0, 12), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1]))
numbers = st.one_of(st.integers(0, 3), st.sampled_from([65_535, 2**31 - 1, 2**31, 2**32 - 1])).map(
    lambda n: struct.pack(">I", n)
)
any_frame = st.one_of(
    st.builds(frames.frame, st.just(frames.HEADERS), st.sampled_from([4, 5, 5, 4, 0, 0x0C, 0x24]), ids, blocks()),
    st.builds(frames.frame, st.just(frames.DATA), st.sampled_from([0, 1, 1, 8, 9]), ids, contents),
    st.builds(frames.frame, st.sampled_from([frames.RST_STREAM, frames.WINDOW_UPDATE]), st.just(0), ids, numbers),
    st.builds(frames.frame, st.just(frames.CONTINUATION), st.sampled_from([0, 4]), ids, blocks()),
    st.builds(lambda names: frames.settings(names), st.dictionaries(st.integers(0, 8), st.integers(0, 2**32 - 1), max_size=4)),
    st.builds(frames.frame, st.integers(0, 12), st.integers(0, 255), ids, st.binary(max_size=30)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(any_frame, max_size=40))
def test_any_frames_are_answered_ignored_or_parted_from(given_frames: list[bytes]):
    asyncio.run(feed([GREETING, *given_frames]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_answered_ignored_or_parted_from(data: bytes, greeted: bool):
    asyncio.run(feed([GREETING + data] if greeted else [data]))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_it_does_not_matter_where_the_bytes_are_cut(data: st.DataObject):
    encoder = hpack.Encoder()
    parts = [GREETING, frames.SETTINGS_ACK]
    encoder.header_table_size = 0
    wanted = {}
    for stream in range(1, 2 * data.draw(st.integers(1, 6)), 2):
        values = data.draw(st.lists(st.floats(width=32, allow_nan=False), max_size=30))
        whole = message(ask("echo", values))
        cut = data.draw(st.integers(0, len(whole)))
        block = encoder.encode(request_fields(x_falaj_key="k" * stream))
        parts.append(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block))
        parts.append(frames.frame(frames.DATA, 0, stream, whole[:cut]))
        parts.append(frames.frame(frames.DATA, frames.END_STREAM, stream, whole[cut:]))
        wanted[stream] = np.array(values, np.float32)
    whole_text = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole_text)), max_size=20)))
    edges = [0, *cuts, len(whole_text)]
    pieces = [whole_text[start:end] for start, end in itertools.pairwise(edges)]
    transport, _ = asyncio.run(feed(pieces))
    answers = {stream: payload for kind, _, stream, payload in transport.frames() if kind == frames.DATA}
    for stream, values in wanted.items():
        response = ModelInferResponse.FromString(answers[stream][5:])
        assert np.array_equal(np.frombuffer(response.raw_output_contents[0], np.float32), values)


def test_requests_that_come_byte_by_byte_are_answered():
    encoder = hpack.Encoder()
    text = GREETING
    for stream in (1, 3, 5):
        text += frames.frame(frames.HEADERS, frames.END_HEADERS, stream, encoder.encode(request_fields()))
        text += frames.frame(frames.DATA, frames.END_STREAM, stream, message(ask()))
    transport, _ = asyncio.run(feed([text[at : at + 1] for at in range(len(text))]))
    assert len([frame for frame in transport.frames() if frame[0] == frames.DATA]) == 3
