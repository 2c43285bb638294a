"""What every HTTP/2 server must take, by the cases of h2spec's `generic` part."""

import struct

import hpack
import pytest

from falaj.serving.plane.grpc import frames
from tests.serving.plane.grpc.peer import END, INFER, LIVE, Peer, ask, message, request_fields
from tests.serving.plane.grpc.serving import Served

PRIORITY = struct.pack(">IB", 0, 255)


def test_1_1_a_connection_starts_with_a_preface(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)


@pytest.mark.parametrize("step", [1, 2, 7, 23])
def test_1_2_the_preface_may_come_in_pieces(face: Served, step: int):
    with Peer(face.port, greet=False) as peer:
        start = frames.PREFACE + frames.settings({})
        for at in range(0, len(start), step):
            peer.raw(start[at : at + step])
        peer.expect_alive()


def test_2_1_a_priority_of_an_idle_stream_is_taken(peer: Peer):
    peer.send(frames.PRIORITY, 0, 1, PRIORITY)
    peer.infer(1)
    peer.expect_answer(1)


def test_2_2_a_window_update_of_a_half_closed_stream_is_taken(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, 0))
    peer.infer(1)
    peer.send(frames.WINDOW_UPDATE, 0, 1, struct.pack(">I", 10_000))
    peer.expect_answer(1)


def test_2_3_a_priority_of_a_half_closed_stream_is_taken(peer: Peer):
    peer.infer(1, "slow")
    peer.send(frames.PRIORITY, 0, 1, PRIORITY)
    peer.expect_answer(1, [1.0, 2.0])


def test_2_4_a_reset_of_a_half_closed_stream_cancels_it(peer: Peer, face: Served):
    peer.infer(1, "never")
    peer.expect_alive()
    asked = face.core.held[-1]
    assert not asked.reply.gone
    peer.send(frames.RST_STREAM, 0, 1, struct.pack(">I", frames.CANCEL))
    peer.expect_alive()
    assert asked.reply.gone


def test_2_5_a_priority_of_a_closed_stream_is_taken(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.send(frames.PRIORITY, 0, 1, PRIORITY)
    peer.expect_alive()


def test_2_6_a_reset_and_a_window_update_of_a_closed_stream_are_ignored(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.send(frames.WINDOW_UPDATE, 0, 1, struct.pack(">I", 10))
    peer.send(frames.RST_STREAM, 0, 1, struct.pack(">I", frames.CANCEL))
    peer.expect_alive()


def test_3_1_1_content_comes_in_one_data_frame_or_in_many(peer: Peer):
    whole = message(ask())
    peer.headers(1)
    for at in range(len(whole)):
        peer.data(1, whole[at : at + 1], end=at == len(whole) - 1)
    peer.expect_answer(1)


def test_3_1_2_the_last_data_frame_may_be_empty(peer: Peer):
    peer.headers(1)
    peer.data(1, message(ask()), end=False)
    peer.data(1, b"")
    peer.expect_answer(1)


@pytest.mark.parametrize("padding", [0, 1, 255])
def test_3_1_3_data_may_be_padded(peer: Peer, padding: int):
    peer.headers(1)
    payload = bytes((padding,)) + message(ask()) + b"\0" * padding
    peer.send(frames.DATA, frames.PADDED | frames.END_STREAM, 1, payload)
    peer.expect_answer(1)


def test_3_2_headers_may_be_padded_and_have_a_priority(peer: Peer):
    payload = b"\x07" + PRIORITY + peer.block() + b"\0" * 7
    peer.send(frames.HEADERS, frames.END_HEADERS | frames.PADDED | frames.PRIORITISED, 1, payload)
    peer.data(1, message(ask()))
    peer.expect_answer(1)


@pytest.mark.parametrize("priority", [(0, 0), (0, 255), (3, 15), (1 << 31, 15)], ids=["least", "most", "other", "alone"])
def test_3_3_priorities_of_every_form_are_taken(peer: Peer, priority: tuple[int, int]):
    peer.send(frames.PRIORITY, 0, 1, struct.pack(">IB", *priority))
    peer.infer(1)
    peer.expect_answer(1)


def test_3_5_every_setting_is_taken(peer: Peer):
    settings = {1: 4096, 2: 0, 3: 100, 4: 65_535, 5: 16_384, 6: 1_000_000}
    peer.raw(frames.settings(settings))
    peer.expect(lambda frame: frame.kind == frames.SETTINGS and frame.flags & 1)
    peer.infer(1)
    peer.expect_answer(1)


def test_3_8_after_a_goaway_what_was_asked_is_answered_and_the_connection_closed(peer: Peer):
    peer.infer(1, "slow")
    peer.send(frames.GOAWAY, 0, 0, struct.pack(">II", 0, 0))
    peer.expect_answer(1, [1.0, 2.0])
    assert peer.next() is None


def test_3_10_a_header_block_may_be_cut_anywhere(face: Served):
    with Peer(face.port) as peer:
        for stream, at in enumerate((0, 1, 5, 40)):
            block = peer.block()
            peer.send(frames.HEADERS, 0, stream * 2 + 1, block[:at])
            peer.send(frames.CONTINUATION, frames.END_HEADERS, stream * 2 + 1, block[at:])
            peer.data(stream * 2 + 1, message(ask()))
            peer.expect_answer(stream * 2 + 1)


def test_4_1_get_and_head_are_answered_with_a_status_of_http(peer: Peer):
    for stream, method in ((1, "GET"), (3, "HEAD")):
        fields = [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "here")]
        peer.headers(stream, fields, flags=END)
        assert peer.reply(stream).head[":status"] == "405"


def test_4_2_a_post_that_is_not_grpc_is_answered_with_a_status_of_http(peer: Peer):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", INFER), ("content-type", "application/json")]
    peer.headers(1, fields)
    assert peer.reply(1).head[":status"] == "415"


def test_4_3_connect_is_refused(peer: Peer):
    peer.headers(1, [(":method", "CONNECT"), (":authority", "elsewhere:443")])
    assert peer.reply(1).head[":status"] == "405"


def test_4_4_a_request_may_have_trailers(peer: Peer):
    peer.headers(1)
    peer.data(1, message(ask()), end=False)
    peer.headers(1, [("x-checksum", "1")], flags=END)
    peer.expect_answer(1)


def test_4_5_an_answer_that_comes_before_the_end_asks_the_client_to_stop(peer: Peer):
    peer.headers(1, request_fields("/nowhere"))
    assert peer.reply(1).status == 12
    reset = peer.expect(lambda frame: frame.kind == frames.RST_STREAM)
    assert (reset.stream, reset.code) == (1, frames.NO_ERROR)
    peer.data(1, b"what was on its way", end=False)
    peer.headers(1, [("x-trailer", "1")], flags=END)
    peer.expect_alive()


LITERALS = {
    "with_indexing_of_a_known_name": b"\x7a\x05agent",
    "with_indexing_of_a_new_name": b"\x40\x04name\x05value",
    "without_indexing_of_a_known_name": b"\x0f\x2b\x05agent",
    "without_indexing_of_a_new_name": b"\x00\x04name\x05value",
    "never_indexed_of_a_known_name": b"\x1f\x2b\x05agent",
    "never_indexed_of_a_new_name": b"\x10\x04name\x05value",
    "huffman": b"\x00\x84" + hpack.huffman.HuffmanEncoder(
        hpack.huffman_constants.REQUEST_CODES, hpack.huffman_constants.REQUEST_CODES_LENGTH
    ).encode(b"namex") + b"\x05value",
    "a_table_of_no_size": None,
}  # fmt: skip


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("literal", LITERALS.values(), ids=LITERALS.keys())
def test_5_every_representation_of_a_field_is_taken(face: Served, literal: bytes | None, acknowledged: bool):
    with Peer(face.port, greet=acknowledged) as peer:
        if not acknowledged:
            peer.raw(frames.PREFACE + frames.settings({}))
        block = peer.block(request_fields(LIVE)) + literal if literal else b"\x20" + peer.block(request_fields(LIVE))
        peer.send(frames.HEADERS, frames.END_HEADERS, 1, block)
        peer.data(1, message(b""))
        assert peer.reply(1).status == 0


def test_5_a_client_that_uses_a_table_before_it_read_our_settings_is_understood(face: Served):
    with Peer(face.port, greet=False) as peer:
        peer.raw(frames.PREFACE + frames.settings({}))
        sizes = []
        for stream in (1, 3, 5):
            block = peer.block()
            sizes.append(len(block))
            peer.send(frames.HEADERS, frames.END_HEADERS, stream, block)
            peer.data(stream, message(ask()))
            peer.expect_answer(stream)
        assert sizes[1] < sizes[0] / 3  # the table is used indeed
        peer.raw(frames.SETTINGS_ACK)
        peer.headers(7)  # and it still uses it: such a client is borne
        peer.data(7, message(ask()))
        peer.expect_answer(7)
        peer.encoder.header_table_size = 0
        for stream in (9, 11):
            peer.infer(stream)
            peer.expect_answer(stream)


def test_5_our_own_blocks_keep_to_a_client_that_allows_no_table(face: Served):
    with Peer(face.port, settings={frames.HEADER_TABLE_SIZE: 0}) as peer:
        peer.decoder.max_allowed_table_size = 0
        for stream in (1, 3):
            peer.infer(stream)
            peer.expect_answer(stream)
