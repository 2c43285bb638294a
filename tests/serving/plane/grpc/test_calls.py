"""gRPC's framing, metadata and statuses, said byte by byte where no client would say them so."""

import asyncio
import gzip
import struct
import time
import zlib

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.limits import Limits
from falaj.serving.plane.grpc.messages import ModelInferRequest, ModelStreamInferResponse
from tests.serving.plane.grpc.peer import END, INFER, STREAM, Peer, ask, message, numbers_of, request_fields
from tests.serving.plane.grpc.serving import Served, served


def call(peer: Peer, body: bytes, stream: int = 1, **metadata: str):
    peer.headers(stream, request_fields(**metadata))
    for at in range(0, max(len(body), 1), 16_384):
        peer.data(stream, body[at : at + 16_384], end=at + 16_384 >= len(body))
    return peer.reply(stream)


def test_an_answer_is_a_head_a_message_and_trailers(peer: Peer):
    reply = call(peer, message(ask()))
    assert reply.head == {":status": "200", "content-type": "application/grpc"}
    assert reply.trailers == {"grpc-status": "0"}
    assert numbers_of(reply) == [2.0, 4.0]


def test_an_error_is_an_answer_of_trailers_alone(peer: Peer):
    reply = call(peer, message(ask("odd")))
    assert reply.body == b""
    assert reply.head == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "3",
        "grpc-message": "100 %25 gr%C3%B6%C3%9Fer%0Aals erlaubt",
    }


def test_an_error_that_passes_says_when_to_try_again(peer: Peer):
    head = call(peer, message(ask("often"))).head
    assert (head["grpc-status"], head["grpc-retry-pushback-ms"], head["retry-after"]) == ("8", "2500", "3")


BAD_BODIES = {
    "nothing": (b"", 12),
    "part_of_a_prefix": (b"\0\0\0", 12),
    "two_messages": (message(ask()) * 2, 12),
    "half_a_message": (message(ask())[:-3], 3),
    "an_unknown_flag": (message(ask(), 2), 3),
    "compressed_without_saying_how": (message(gzip.compress(ask()), 1), 12),
    "not_protobuf": (message(b"\xff\xff\xff\xff"), 3),
    "a_cut_protobuf": (message(ask()[:-10]), 3),
    "text_that_is_not_utf8": (message(b"\x0a\x02\xff\xfe"), 3),
    "a_group_without_end": (message(b"\x0b" * 200), 3),
    "deep_groups": (message(b"\x43" * 20_000), 3),
    "a_large_cut_protobuf": (message(ask(numbers=[1.0] * 10_000)[:-10]), 3),
    "a_length_beyond_the_end": (message(b"\x3a\xff\xff\xff\xff\x0f" + b"0" * 20_000), 3),
    "a_number_without_end": (message(b"\xff" * 20_000), 3),
}


@pytest.mark.parametrize(("body", "status"), BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_body_that_is_no_message_is_refused(peer: Peer, body: bytes, status: int):
    assert call(peer, body).status == status
    assert call(peer, message(ask()), 3).status == 0


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_messages_are_taken_and_may_stand_beside_plain_ones(peer: Peer, encoding: str, compress):
    assert numbers_of(call(peer, message(compress(ask()), 1), grpc_encoding=encoding)) == [2.0, 4.0]
    assert numbers_of(call(peer, message(ask()), 3, grpc_encoding=encoding)) == [2.0, 4.0]


BROKEN = {
    "not_compressed": b"plain text",
    "cut": gzip.compress(ask())[:-9],
    "empty": b"",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_messages_that_are_said_to_be_compressed_and_are_not_are_refused(peer: Peer, content: bytes):
    assert call(peer, message(content, 1), grpc_encoding="gzip").status == 3


def test_an_unknown_compression_is_refused_and_the_known_ones_are_named(peer: Peer):
    reply = call(peer, message(ask(), 1), grpc_encoding="snappy")
    assert reply.status == 12
    assert reply.head["grpc-accept-encoding"] == "identity,gzip,deflate"


@pytest.mark.parametrize("timeout", ["", "5", "m", "-1S", "123456789S", "1.5S", "1x"])
def test_a_timeout_that_is_none_is_refused(peer: Peer, timeout: str):
    assert call(peer, message(ask()), grpc_timeout=timeout).status == 3


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("1H", 3600.0), ("2M", 120.0), ("3S", 3.0), ("4000m", 4.0), ("5000000u", 5.0), ("99999999n", 0.1)]
)
def test_a_timeout_becomes_a_deadline(peer: Peer, face: Served, timeout: str, seconds: float):
    assert call(peer, message(ask()), grpc_timeout=timeout).status == 0
    asked = face.core.seen
    assert asked is not None
    assert asked.deadline == pytest.approx(asked.arrived + seconds, abs=1e-3)


def test_of_two_timeouts_the_sooner_holds(peer: Peer, face: Served):
    request = ModelInferRequest.FromString(ask())
    request.parameters["timeout"].int64_param = 2_000_000
    for stream, (timeout, wanted) in enumerate((("1S", 1.0), ("5S", 2.0))):
        assert call(peer, message(request.SerializeToString()), 2 * stream + 1, grpc_timeout=timeout).status == 0
        asked = face.core.seen
        assert asked is not None
        assert asked.deadline == pytest.approx(asked.arrived + wanted, abs=1e-3)


def test_a_deadline_that_has_passed_is_refused(peer: Peer):
    assert call(peer, message(ask("slow")), grpc_timeout="1m").status == 4


def test_metadata_reaches_the_core(peer: Peer, face: Served):
    call(peer, message(ask(id="r1")), authorization="bearer abc", x_falaj_key="ann", x_falaj_revision="4")
    asked = face.core.seen
    assert asked is not None
    assert (asked.token, asked.key, asked.override, asked.id) == ("abc", "ann", "4", "r1")
    call(peer, message(ask()), 3, authorization="Basic abc")
    assert face.core.seen is not None
    assert face.core.seen.token == ""


@pytest.mark.parametrize("name", ["authorization", "x-falaj-key", "grpc-timeout"])
def test_metadata_that_counts_cannot_be_given_twice(peer: Peer, name: str):
    peer.headers(1, [*request_fields(), (name, "1S"), (name, "2S")])
    assert peer.reply(1).status == 3


def test_a_token_of_one_call_is_never_that_of_another(face: Served):
    """Heads are remembered by all their bytes, over all connections."""
    for token in ("one", "two", "one"):
        with Peer(face.port) as peer:
            for stream in (1, 3):
                call(peer, message(ask()), stream, authorization=f"Bearer {token}")
                assert face.core.seen is not None
                assert face.core.seen.token == token


def test_a_message_may_have_exactly_the_limit():
    request = ModelInferRequest(model_name="echo", raw_input_contents=[b"7" * 50_000])
    request.inputs.add(name="x", datatype="UINT8", shape=[50_000])
    body = request.SerializeToString()
    for limit, status in ((len(body), 0), (len(body) - 1, 8)):
        with served(Limits(message=limit)) as face, Peer(face.port) as peer:
            assert call(peer, message(body)).status == status


def test_names_alone_need_no_large_message(peer: Peer):
    peer.headers(1, request_fields("/inference.GRPCInferenceService/ModelReady"))
    peer.data(1, struct.pack(">BI", 0, 65_537), end=False)
    assert peer.reply(1).status == 8


def test_a_stream_without_requests_ends_well(peer: Peer):
    peer.headers(1, request_fields(STREAM), flags=END)
    reply = peer.reply(1)
    assert (reply.head[":status"], reply.status, reply.body) == ("200", 0, b"")


def test_a_streams_messages_may_be_cut_anywhere(peer: Peer):
    whole = b"".join(message(ask(numbers=[float(number)], id=str(number))) for number in range(20))
    peer.headers(1, request_fields(STREAM))
    for at in range(0, len(whole), 37):
        peer.data(1, whole[at : at + 37], end=at + 37 >= len(whole))
    replies = [ModelStreamInferResponse.FromString(each).infer_response for each in peer.reply(1).messages]
    got = {int(reply.id): np.frombuffer(reply.raw_output_contents[0], np.float32)[0] for reply in replies}
    assert got == {number: number * 2.0 for number in range(20)}


def test_a_stream_that_ends_inside_a_message_fails(peer: Peer):
    peer.headers(1, request_fields(STREAM))
    peer.data(1, message(ask())[:-3])
    assert peer.reply(1).status == 3


def test_what_is_wrong_with_one_request_of_a_stream_is_said_of_that_one(peer: Peer):
    mismatched = ModelInferRequest.FromString(ask(id="bad"))
    mismatched.raw_input_contents.append(b"1234")
    peer.headers(1, request_fields(STREAM))
    peer.data(1, message(mismatched.SerializeToString()) + message(ask(id="good")))
    reply = peer.reply(1)
    assert reply.status == 0
    first, second = [ModelStreamInferResponse.FromString(each) for each in reply.messages]
    said = {one.infer_response.id: one.error_message for one in (first, second)}
    assert said["good"] == ""
    assert "1 inputs came with 2 raw_input_contents" in said[""]


def test_a_stream_of_large_answers_waits_for_its_reader(peer: Peer, face: Served):
    peer.send(frames.SETTINGS, 0, 0, struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, 0))
    peer.headers(1, request_fields(STREAM))
    for _ in range(60):
        peer.data(1, message(ask("grow", [300_000.0])), end=False)
    peer.data(1, b"")
    peer.expect_alive()
    deadline = time.monotonic() + 60
    while face.held() <= 300_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.1)
    assert face.held() < (face.limits.at_once + 1) * 300_100  # not all sixty
    peer.send(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
    peer.send(frames.WINDOW_UPDATE, 0, 1, struct.pack(">I", 2**30))
    reply = peer.reply(1)
    assert reply.status == 0
    assert len(reply.messages) == 60
    assert face.held() == 0


def test_a_large_answer_waits_for_the_clients_window(peer: Peer):
    peer.infer(1, "grow", [100_000.0])
    received = 0
    while received < 100_000:
        frame = peer.expect(lambda frame: frame.kind == frames.DATA)
        assert len(frame.payload) <= frames.DEFAULT_FRAME
        received += len(frame.payload)
        peer.send(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", len(frame.payload)))
        peer.send(frames.WINDOW_UPDATE, 0, 1, struct.pack(">I", len(frame.payload)))
    peer.expect(lambda frame: frame.kind == frames.HEADERS and frame.flags & frames.END_STREAM)


def test_a_small_answer_overtakes_a_large_one(peer: Peer):
    peer.infer(1, "grow", [1_000_000.0])
    peer.expect(lambda frame: frame.kind == frames.DATA)
    peer.send(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 100_000))
    peer.infer(3)
    peer.expect_answer(3)
    assert not [frame for frame in peer.read if frame.stream == 1 and frame.flags & frames.END_STREAM]


def test_a_drain_answers_what_was_asked_and_takes_nothing_more():
    with served() as face, Peer(face.port) as peer:
        peer.infer(1, "slow")
        peer.expect_alive()
        face.do(face.face.drain)
        first = peer.expect(lambda frame: frame.kind == frames.GOAWAY)
        assert struct.unpack(">II", first.payload[:8]) == (2**31 - 1, 0)
        peer.infer(3, "slow")  # was on its way
        ping = peer.expect(lambda frame: frame.kind == frames.PING)
        peer.send(frames.PING, frames.ACK, 0, ping.payload)
        second = peer.expect(lambda frame: frame.kind == frames.GOAWAY)
        assert struct.unpack(">II", second.payload[:8]) == (3, 0)
        peer.infer(5)
        answered = {frame.stream for frame in iter(peer.next, None) if frame.kind == frames.DATA}
        assert answered == {1, 3}


def test_after_a_drain_new_connections_are_sent_away():
    with served() as face:
        face.do(face.face.drain)
        with Peer(face.port) as peer:
            peer.expect_goaway(0)


def test_it_runs_on_asyncios_own_loop_too():
    with served(new_loop=asyncio.new_event_loop) as face, Peer(face.port) as peer:
        for stream in range(1, 101, 2):
            peer.infer(stream)
        for stream in range(1, 101, 2):
            peer.expect_answer(stream)


class Watched:
    """A transport that counts its writes."""

    def __init__(self, transport: asyncio.Transport, writes: list[int]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        self._writes.append(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def test_answers_of_one_turn_go_out_in_one_write(face: Served):
    with Peer(face.port) as peer:
        writes: list[int] = []

        def watch() -> None:
            (connection,) = [each for each in face.shared.connections if each._highest == 1]
            connection._transport = Watched(connection._transport, writes)

        peer.infer(1)
        peer.expect_answer(1)
        face.do(watch)
        block = peer.block()
        peer.raw(
            b"".join(
                frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block)
                + frames.frame(frames.DATA, frames.END_STREAM, stream, message(ask()))
                for stream in range(3, 63, 2)
            )
        )
        for stream in range(3, 63, 2):
            peer.expect_answer(stream)
        assert len(writes) <= 3


def test_an_answer_that_cannot_be_written_is_an_error_of_that_call(peer: Peer, caplog: pytest.LogCaptureFixture):
    reply = call(peer, message(ask("unwritable")))
    assert reply.status == 13
    assert "log" in reply.message
    assert "an answer could not be written" in caplog.text
    peer.headers(3, request_fields(STREAM))
    peer.data(3, message(ask("unwritable")))
    reply = peer.reply(3)
    assert ModelStreamInferResponse.FromString(reply.messages[0]).error_message
    assert reply.status == 0


def test_a_core_that_breaks_its_promise_costs_one_connection(face: Served, caplog: pytest.LogCaptureFixture):
    with Peer(face.port) as peer:
        peer.infer(1, "raises")
        peer.expect_goaway(frames.INTERNAL_ERROR)
    assert "a connection failed" in caplog.text
    with Peer(face.port) as peer:
        peer.infer(1)
        peer.expect_answer(1)


def test_a_refused_call_that_was_sent_whole_is_not_reset(peer: Peer):
    peer.headers(1, request_fields("/nowhere"), flags=END)
    assert peer.reply(1).status == 12
    peer.expect_alive()
    assert not [frame for frame in peer.read if frame.kind == frames.RST_STREAM]


def test_a_reply_that_is_given_twice_counts_once(peer: Peer, face: Served):
    peer.infer(1, "never")
    peer.expect_alive()
    reply = face.core.held[-1].reply
    face.do(lambda: [reply.refuse(Invalid("first")), reply.refuse(Invalid("second"))])
    assert peer.reply(1).message == "first"
    peer.expect_alive()
    assert len([frame for frame in peer.read if frame.stream == 1]) == 1


def test_a_parting_waits_until_the_last_answer_is_read():
    with served() as face, Peer(face.port, settings={frames.INITIAL_WINDOW_SIZE: 2**31 - 1}) as peer:
        peer.send(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
        peer.infer(1, "grow", [30_000_000.0])
        peer.send(frames.GOAWAY, 0, 0, struct.pack(">II", 0, 0))
        time.sleep(2.5)  # longer than the server lingers
        reply = peer.reply(1)
        assert reply.status == 0
        assert len(reply.body) > 30_000_000
        while (frame := peer.next()) is not None:  # nothing but a parting word of the server's own
            assert frame.kind == frames.GOAWAY


def test_a_token_that_is_new_is_looked_at_with_the_address_it_comes_from(peer: Peer, face: Served):
    for stream, path in ((1, INFER), (3, "/inference.GRPCInferenceService/ModelReady")):
        face.core.sources.clear()
        peer.headers(stream, request_fields(path, authorization=f"Bearer fresh-{stream}"))
        peer.data(stream, message(ask() if path == INFER else b""))
        assert peer.reply(stream).status == 0
        assert face.core.sources == {"127.0.0.1"}
