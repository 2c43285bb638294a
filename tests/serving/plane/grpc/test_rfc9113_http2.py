"""RFC 9113 by the cases of h2spec's `http2` part. The number in a test's name is h2spec's section and case."""

import struct

import pytest

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.frames import (
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
)
from tests.serving.plane.grpc.peer import END, INFER, Peer, ask, message, numbers_of, request_fields
from tests.serving.plane.grpc.serving import Served

PRIORITY_OF_ITSELF = struct.pack(">IB", 1, 15)


def number(value: int) -> bytes:
    return struct.pack(">I", value)


def setting(name: int, value: int) -> bytes:
    return struct.pack(">HI", name, value)


def test_3_5_1_a_client_preface_is_answered_with_settings(face: Served):
    with Peer(face.port, greet=False) as peer:
        peer.raw(frames.PREFACE + frames.settings({}))
        assert peer.next().kind == frames.SETTINGS


def test_3_5_2_a_wrong_preface_ends_the_connection(face: Served):
    with Peer(face.port, greet=False) as peer:
        peer.raw(b"INVALID CONNECTION PREFACE\r\n\r\n")
        peer.expect_goaway(PROTOCOL_ERROR)


def test_3_5_3_the_first_frame_must_be_settings(face: Served):
    with Peer(face.port, greet=False) as peer:
        peer.raw(frames.PREFACE + frames.frame(frames.PING, 0, 0, b"12345678"))
        peer.expect_goaway(PROTOCOL_ERROR)


def test_3_5_4_the_first_settings_cannot_be_an_acknowledgement(face: Served):
    with Peer(face.port, greet=False) as peer:
        peer.raw(frames.PREFACE + frames.SETTINGS_ACK)
        peer.expect_goaway(PROTOCOL_ERROR)


def test_4_1_1_a_frame_of_unknown_type_is_ignored(peer: Peer):
    peer.send(0xFF, 0, 0, b"12345678")
    peer.expect_alive()


def test_4_1_2_undefined_flags_are_ignored(peer: Peer):
    peer.send(frames.PING, 0x16, 0, b"12345678")
    peer.expect(lambda frame: frame.kind == frames.PING and frame.payload == b"12345678")


def test_4_1_3_the_reserved_bit_is_ignored(peer: Peer):
    peer.send(frames.PING, 0, 1 << 31, b"12345678")
    peer.expect(lambda frame: frame.kind == frames.PING and frame.payload == b"12345678")


def test_4_2_1_a_frame_of_2_14_bytes_is_taken(peer: Peer):
    numbers = [1.0] * 4000
    whole = message(ask(numbers=numbers))
    peer.headers()
    peer.data(1, whole[: 2**14], end=False)
    peer.data(1, whole[2**14 :])
    peer.expect_answer(1, [2.0] * 4000)


def test_4_2_2_data_larger_than_announced_ends_the_connection(peer: Peer, face: Served):
    peer.headers()
    peer.data(1, b"0" * (face.limits.frame + 1))
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_4_2_3_headers_larger_than_announced_end_the_connection(peer: Peer, face: Served):
    peer.send(frames.HEADERS, END, 1, b"0" * (face.limits.frame + 1))
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_4_2_4_a_frame_that_is_too_large_is_refused_before_it_has_come(peer: Peer):
    peer.raw(frames.head(2**24 - 1, frames.DATA, 0, 1))
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_4_3_1_an_invalid_header_block_ends_the_connection(peer: Peer):
    peer.send(frames.HEADERS, END, 1, b"\x40\x01\x2a\x01")  # a value that is not there
    peer.expect_goaway(COMPRESSION_ERROR)


def test_4_3_2_a_priority_frame_within_a_header_block_ends_the_connection(peer: Peer):
    peer.headers(1, flags=frames.END_STREAM)
    peer.send(frames.PRIORITY, 0, 1, struct.pack(">IB", 0, 255))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_4_3_3_headers_of_another_stream_within_a_header_block_end_the_connection(peer: Peer):
    peer.headers(1, flags=frames.END_STREAM)
    peer.headers(3, flags=END)
    peer.expect_goaway(PROTOCOL_ERROR)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(frames.DATA, b"test"), (frames.RST_STREAM, number(8)), (frames.WINDOW_UPDATE, number(100)), (frames.CONTINUATION, b"x")],
    ids=["5_1_1_data", "5_1_2_rst_stream", "5_1_3_window_update", "5_1_4_continuation"],
)
def test_5_1_on_an_idle_stream_only_headers_and_priority_are_taken(peer: Peer, kind: int, payload: bytes):
    peer.send(kind, 0, 1, payload)
    peer.expect_goaway(PROTOCOL_ERROR)


def test_5_1_5_half_closed_data_is_an_error_of_the_stream(peer: Peer):
    peer.infer(1, "never")
    peer.data(1, b"test")
    peer.expect_reset(1, STREAM_CLOSED)


def test_5_1_6_half_closed_headers_are_an_error_of_the_stream(peer: Peer):
    peer.infer(1, "never")
    peer.headers(1, flags=END)
    peer.expect_reset(1, STREAM_CLOSED)


def test_5_1_7_half_closed_continuation_is_an_error(peer: Peer):
    peer.infer(1, "never")
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, b"")
    peer.expect_goaway(PROTOCOL_ERROR, STREAM_CLOSED)


def test_5_1_8_closed_data_after_a_reset_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.send(frames.RST_STREAM, 0, 1, number(8))
    peer.data(1, b"test")
    peer.expect_reset(1, STREAM_CLOSED)


def test_5_1_9_closed_headers_after_a_reset_are_an_error(peer: Peer):
    peer.headers(1)
    peer.send(frames.RST_STREAM, 0, 1, number(8))
    peer.headers(1, flags=END)
    peer.expect_goaway(STREAM_CLOSED)


def test_5_1_10_closed_continuation_after_a_reset_is_an_error(peer: Peer):
    peer.headers(1)
    peer.send(frames.RST_STREAM, 0, 1, number(8))
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, b"")
    peer.expect_goaway(PROTOCOL_ERROR, STREAM_CLOSED)


def test_5_1_11_closed_data_is_an_error(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.data(1, b"test")
    peer.expect_reset(1, STREAM_CLOSED)


def test_5_1_12_closed_headers_end_the_connection(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.headers(1, flags=END)
    peer.expect_goaway(STREAM_CLOSED)


def test_5_1_13_closed_continuation_ends_the_connection(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, b"")
    peer.expect_goaway(PROTOCOL_ERROR, STREAM_CLOSED)


def test_5_1_1_1_an_even_stream_number_ends_the_connection(peer: Peer):
    peer.headers(2, flags=END)
    peer.expect_goaway(PROTOCOL_ERROR)


def test_5_1_1_2_a_lower_stream_number_ends_the_connection(peer: Peer):
    peer.infer(5)
    peer.headers(3, flags=END)
    peer.expect_goaway(PROTOCOL_ERROR)


def test_5_1_2_1_one_stream_too_many_is_refused(peer: Peer, face: Served):
    for stream in range(1, 2 * face.limits.streams, 2):
        peer.infer(stream, "never")
    peer.headers(2 * face.limits.streams + 1)
    peer.expect_reset(2 * face.limits.streams + 1, REFUSED_STREAM)


def test_5_3_1_1_headers_that_depend_on_themselves_are_an_error_of_the_stream(peer: Peer):
    peer.send(frames.HEADERS, END | frames.PRIORITISED, 1, PRIORITY_OF_ITSELF + peer.block())
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_5_3_1_2_priorities_that_depend_on_themselves_are_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.send(frames.PRIORITY, 0, 1, PRIORITY_OF_ITSELF)
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_5_4_1_1_after_an_error_of_the_connection_it_is_closed(peer: Peer):
    peer.send(frames.PING, 0, 0, b"")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_5_4_1_2_the_goaway_names_the_last_stream(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.send(frames.PING, 0, 3, b"12345678")
    goaway = peer.expect(lambda frame: frame.kind == frames.GOAWAY)
    assert struct.unpack(">II", goaway.payload[:8]) == (1, PROTOCOL_ERROR)


def test_5_5_1_an_extension_frame_is_ignored(peer: Peer):
    peer.send(0x16, 0, 0, b"12345678")
    peer.send(0x16, 0, 1, b"12345678")
    peer.expect_alive()


def test_5_5_2_an_extension_frame_within_a_header_block_ends_the_connection(peer: Peer):
    peer.headers(1, flags=frames.END_STREAM)
    peer.send(0x16, 0, 0, b"12345678")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_1_1_data_of_no_stream_ends_the_connection(peer: Peer):
    peer.data(0, b"test")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_1_2_data_of_a_stream_that_is_not_open_is_an_error_of_the_stream(peer: Peer):
    peer.infer(1)
    peer.expect_answer(1)
    peer.data(1, b"test")
    peer.expect_reset(1, STREAM_CLOSED)


def test_6_1_3_data_with_more_padding_than_room_ends_the_connection(peer: Peer):
    peer.headers(1)
    peer.send(frames.DATA, frames.PADDED | frames.END_STREAM, 1, b"\x06test")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_1_4_data_with_padding_and_no_room_for_its_length_ends_the_connection(peer: Peer):
    peer.headers(1)
    peer.send(frames.DATA, frames.PADDED | frames.END_STREAM, 1, b"")
    peer.expect_goaway(FRAME_SIZE_ERROR, PROTOCOL_ERROR)


def test_6_2_1_headers_without_end_followed_by_data_end_the_connection(peer: Peer):
    peer.headers(1, flags=0)
    peer.data(1, b"test")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_2_3_headers_of_no_stream_end_the_connection(peer: Peer):
    peer.headers(0, flags=END)
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_2_4_headers_with_more_padding_than_room_end_the_connection(peer: Peer):
    block = peer.block()
    peer.send(frames.HEADERS, END | frames.PADDED, 1, bytes((len(block) + 1,)) + block)
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_2_5_headers_too_short_for_their_priority_end_the_connection(peer: Peer):
    peer.send(frames.HEADERS, END | frames.PRIORITISED, 1, b"\0\0")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_3_1_a_priority_of_no_stream_ends_the_connection(peer: Peer):
    peer.send(frames.PRIORITY, 0, 0, struct.pack(">IB", 0, 255))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_3_2_a_priority_of_another_length_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.send(frames.PRIORITY, 0, 1, b"\x80\0\0\1")
    peer.expect_reset(1, FRAME_SIZE_ERROR)


def test_6_3_3_a_priority_of_another_length_on_an_idle_stream_ends_the_connection(peer: Peer):
    peer.send(frames.PRIORITY, 0, 1, b"\x80\0\0\1")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_4_1_a_reset_of_no_stream_ends_the_connection(peer: Peer):
    peer.send(frames.RST_STREAM, 0, 0, number(8))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_4_2_a_reset_of_an_idle_stream_ends_the_connection(peer: Peer):
    peer.send(frames.RST_STREAM, 0, 1, number(8))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_4_3_a_reset_of_another_length_ends_the_connection(peer: Peer):
    peer.headers(1)
    peer.send(frames.RST_STREAM, 0, 1, b"\0\0\0")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_5_1_an_acknowledgement_with_content_ends_the_connection(peer: Peer):
    peer.send(frames.SETTINGS, frames.ACK, 0, b"\0")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_5_2_settings_of_a_stream_end_the_connection(peer: Peer):
    peer.send(frames.SETTINGS, 0, 1, setting(frames.MAX_CONCURRENT_STREAMS, 100))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_5_3_settings_of_another_length_end_the_connection(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, b"\0\3\0")
    peer.expect_goaway(FRAME_SIZE_ERROR)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (frames.ENABLE_PUSH, 2, PROTOCOL_ERROR),
        (frames.INITIAL_WINDOW_SIZE, 2**31, FLOW_CONTROL_ERROR),
        (frames.MAX_FRAME_SIZE, 2**14 - 1, PROTOCOL_ERROR),
        (frames.MAX_FRAME_SIZE, 2**24, PROTOCOL_ERROR),
    ],
    ids=["6_5_2_1_enable_push", "6_5_2_2_initial_window", "6_5_2_3_frame_too_small", "6_5_2_4_frame_too_large"],
)
def test_6_5_2_a_setting_out_of_its_range_ends_the_connection(peer: Peer, name: int, value: int, code: int):
    peer.send(frames.SETTINGS, 0, 0, setting(name, value))
    peer.expect_goaway(code)


def test_6_5_2_5_an_unknown_setting_is_ignored(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, setting(0xFF, 1))
    peer.expect(lambda frame: frame.kind == frames.SETTINGS and frame.flags & 1)
    peer.expect_alive()


def test_6_5_3_1_of_settings_that_are_given_twice_the_last_holds(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 100) + setting(frames.INITIAL_WINDOW_SIZE, 1))
    peer.infer(1)
    data = peer.expect(lambda frame: frame.kind == frames.DATA)
    assert len(data.payload) == 1


def test_6_5_3_2_settings_are_acknowledged(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, b"")
    peer.expect(lambda frame: frame.kind == frames.SETTINGS and frame.flags & 1)


def test_6_7_1_a_ping_comes_back(peer: Peer):
    peer.send(frames.PING, 0, 0, b"h2spec\0\0")
    peer.expect(lambda frame: frame.kind == frames.PING and frame.flags == frames.ACK and frame.payload == b"h2spec\0\0")


def test_6_7_2_a_ping_that_is_an_answer_is_not_answered(peer: Peer):
    peer.send(frames.PING, frames.ACK, 0, b"invalid\0")
    peer.expect_alive()
    assert not [frame for frame in peer.read if frame.payload == b"invalid\0"]


def test_6_7_3_a_ping_of_a_stream_ends_the_connection(peer: Peer):
    peer.send(frames.PING, 0, 1, b"12345678")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_7_4_a_ping_of_another_length_ends_the_connection(peer: Peer):
    peer.send(frames.PING, 0, 0, b"123456")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_8_1_a_goaway_of_a_stream_ends_the_connection(peer: Peer):
    peer.send(frames.GOAWAY, 0, 1, number(0) + number(0))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_8_2_a_goaway_that_is_too_short_ends_the_connection(peer: Peer):
    peer.send(frames.GOAWAY, 0, 0, number(0))
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_9_1_a_window_update_by_nothing_ends_the_connection(peer: Peer):
    peer.send(frames.WINDOW_UPDATE, 0, 0, number(0))
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_9_2_a_streams_window_update_by_nothing_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.send(frames.WINDOW_UPDATE, 0, 1, number(0))
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_6_9_3_a_window_update_of_another_length_ends_the_connection(peer: Peer):
    peer.send(frames.WINDOW_UPDATE, 0, 0, b"\0\0\1")
    peer.expect_goaway(FRAME_SIZE_ERROR)


def test_6_9_1_1_no_more_is_sent_than_the_window_lets(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 1))
    peer.infer(1)
    assert len(peer.expect(lambda frame: frame.kind == frames.DATA).payload) == 1
    peer.expect_alive()
    assert len([frame for frame in peer.read if frame.kind == frames.DATA]) == 1


def test_6_9_1_2_a_connections_window_above_its_greatest_ends_it(peer: Peer):
    peer.send(frames.WINDOW_UPDATE, 0, 0, number(2**31 - 1))
    peer.expect_goaway(FLOW_CONTROL_ERROR)


def test_6_9_1_3_a_streams_window_above_its_greatest_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.send(frames.WINDOW_UPDATE, 0, 1, number(2**31 - 1))
    peer.expect_reset(1, FLOW_CONTROL_ERROR)


def test_6_9_2_1_a_new_initial_window_changes_open_streams(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 0))
    peer.infer(1)
    peer.expect_alive()
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 1))
    assert len(peer.expect(lambda frame: frame.kind == frames.DATA).payload) == 1


def test_6_9_2_2_a_window_may_become_negative_and_is_then_waited_for(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 3))
    peer.infer(1)
    assert len(peer.expect(lambda frame: frame.kind == frames.DATA).payload) == 3
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 2))
    peer.send(frames.WINDOW_UPDATE, 0, 1, number(1))  # now it is none
    peer.expect_alive()
    assert len([frame for frame in peer.read if frame.kind == frames.DATA]) == 1
    peer.send(frames.WINDOW_UPDATE, 0, 1, number(2))
    assert len(peer.expect(lambda frame: frame.kind == frames.DATA).payload) == 2


def test_6_9_2_3_an_initial_window_that_overflows_an_open_streams_ends_the_connection(peer: Peer):
    peer.headers(1)
    peer.send(frames.WINDOW_UPDATE, 0, 1, number(2**31 - 1 - 65_535))
    peer.send(frames.SETTINGS, 0, 0, setting(frames.INITIAL_WINDOW_SIZE, 65_536))
    peer.expect_goaway(FLOW_CONTROL_ERROR)


def split_headers(peer: Peer, parts: int = 3) -> None:
    block = peer.block()
    size = len(block) // parts
    peer.send(frames.HEADERS, 0, 1, block[:size])
    for part in range(1, parts - 1):
        peer.send(frames.CONTINUATION, 0, 1, block[part * size : (part + 1) * size])
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, block[(parts - 1) * size :])


def test_6_10_1_several_continuations_are_one_header_block(peer: Peer):
    split_headers(peer)
    peer.data(1, message(ask()))
    peer.expect_answer(1)


def test_6_10_2_a_continuation_followed_by_another_frame_ends_the_connection(peer: Peer):
    peer.send(frames.HEADERS, 0, 1, peer.block())
    peer.send(frames.CONTINUATION, 0, 1, b"")
    peer.data(1, b"test")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_10_3_a_continuation_of_no_stream_ends_the_connection(peer: Peer):
    peer.headers(1, flags=0)
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 0, b"")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_10_4_a_continuation_after_the_end_of_headers_ends_the_connection(peer: Peer):
    peer.headers(1)
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, b"")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_10_5_a_continuation_after_the_last_one_ends_the_connection(peer: Peer):
    split_headers(peer)
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, b"")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_6_10_6_a_continuation_after_data_ends_the_connection(peer: Peer):
    peer.headers(1)
    peer.data(1, b"\0\0", end=False)
    peer.send(frames.CONTINUATION, frames.END_HEADERS, 1, b"")
    peer.expect_goaway(PROTOCOL_ERROR)


def test_7_1_a_goaway_with_an_unknown_code_ends_in_peace(peer: Peer):
    peer.send(frames.GOAWAY, 0, 0, number(0) + number(0xFF))
    peer.expect_goaway(frames.NO_ERROR)


def test_7_2_a_reset_with_an_unknown_code_is_a_reset(peer: Peer, face: Served):
    before = face.open_streams()
    peer.headers(1)
    peer.send(frames.RST_STREAM, 0, 1, number(0xFF))
    peer.expect_alive()
    assert face.open_streams() == before


def test_8_1_1_a_second_head_without_the_streams_end_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.headers(1, [("x-trailer", "1")], flags=frames.END_HEADERS)
    peer.expect_reset(1, PROTOCOL_ERROR)


def without(name: str) -> list[tuple[str, str]]:
    return [field for field in request_fields() if field[0] != name]


def with_value(name: str, value: str) -> list[tuple[str, str]]:
    return [(given, value if given == name else content) for given, content in request_fields()]


FIRST_TWICE = [(":method", "POST"), *request_fields()]
MALFORMED = {
    "8_1_2_1_an_uppercase_name": [*request_fields(), ("X-Upper", "1")],
    "8_1_2_2_an_empty_name": [*request_fields(), ("", "1")],
    "8_1_2_3_a_space_in_a_name": [*request_fields(), ("x y", "1")],
    "8_1_2_4_a_colon_in_a_name": [*request_fields(), ("x:y", "1")],
    "8_1_2_5_a_control_character_in_a_name": [*request_fields(), ("x\x7f", "1")],
    "8_1_2_6_a_line_feed_in_a_value": [*request_fields(), ("x", "a\nb")],
    "8_1_2_7_a_return_in_a_value": [*request_fields(), ("x", "a\rb")],
    "8_1_2_8_a_nul_in_a_value": [*request_fields(), ("x", "a\0b")],
    "8_1_2_9_a_space_before_a_value": [*request_fields(), ("x", " a")],
    "8_1_2_10_a_tab_behind_a_value": [*request_fields(), ("x", "a\t")],
    "8_1_2_1_1_an_unknown_pseudo_field": [(":test", "x"), *request_fields()],
    "8_1_2_1_2_a_pseudo_field_of_responses": [(":status", "200"), *request_fields()],
    "8_1_2_1_4_a_pseudo_field_after_a_regular_one": [*request_fields()[1:], (":method", "POST")],
    "8_1_2_2_1_connection": [*request_fields(), ("connection", "keep-alive")],
    "8_1_2_2_1_keep_alive": [*request_fields(), ("keep-alive", "1")],
    "8_1_2_2_1_proxy_connection": [*request_fields(), ("proxy-connection", "keep-alive")],
    "8_1_2_2_1_transfer_encoding": [*request_fields(), ("transfer-encoding", "chunked")],
    "8_1_2_2_1_upgrade": [*request_fields(), ("upgrade", "h2c")],
    "8_1_2_2_2_te_of_anything_but_trailers": with_value("te", "trailers, deflate;q=0.5"),
    "8_1_2_3_1_an_empty_path": with_value(":path", ""),
    "8_1_2_3_2_no_method": without(":method"),
    "8_1_2_3_3_no_scheme": without(":scheme"),
    "8_1_2_3_4_no_path": without(":path"),
    "8_1_2_3_5_two_methods": FIRST_TWICE,
    "8_1_2_3_6_two_schemes": [(":scheme", "http"), *request_fields()],
    "8_1_2_3_7_two_paths": [(":path", INFER), *request_fields()],
    "8_1_2_3_8_a_path_that_is_none": with_value(":path", "somewhere"),
    "8_3_1_connect_with_a_path": with_value(":method", "CONNECT"),
    "8_6_1_two_lengths": [*request_fields(), ("content-length", "1"), ("content-length", "2")],
    "8_6_2_a_length_that_is_no_number": [*request_fields(), ("content-length", "+5")],
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED.keys())
def test_8_1_2_a_malformed_head_is_an_error_of_the_stream(peer: Peer, fields: list[tuple[str, str]]):
    peer.headers(1, fields, flags=END)
    peer.expect_reset(1, PROTOCOL_ERROR)
    peer.infer(3)
    peer.expect_answer(3)


def test_8_1_2_1_3_a_pseudo_field_in_trailers_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1)
    peer.data(1, message(ask()), end=False)
    peer.headers(1, [(":method", "POST")], flags=END)
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_8_1_2_6_1_a_length_that_one_data_frame_does_not_have_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1, request_fields(content_length="1"))
    peer.data(1, b"test")
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_8_1_2_6_2_a_length_that_several_data_frames_do_not_have_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1, request_fields(content_length="9"))
    peer.data(1, b"\0\0\0\0", end=False)
    peer.data(1, b"\0\0\0\0")
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_8_1_2_6_3_a_length_without_any_content_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1, request_fields(content_length="9"), flags=END)
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_8_1_2_6_4_a_length_that_trailers_cut_short_is_an_error_of_the_stream(peer: Peer):
    peer.headers(1, request_fields(content_length="9"))
    peer.headers(1, [("x-trailer", "1")], flags=END)
    peer.expect_reset(1, PROTOCOL_ERROR)


def test_8_1_2_6_5_a_length_that_holds_is_taken(peer: Peer):
    whole = message(ask())
    peer.headers(1, request_fields(content_length=str(len(whole))))
    peer.data(1, whole[:7], end=False)
    peer.data(1, whole[7:])
    peer.expect_answer(1)


def test_8_2_1_a_push_promise_ends_the_connection(peer: Peer):
    peer.send(frames.PUSH_PROMISE, frames.END_HEADERS, 1, number(2) + peer.block())
    peer.expect_goaway(PROTOCOL_ERROR)


def test_10_5_1_a_header_list_beyond_its_limit_ends_the_connection(peer: Peer):
    peer.headers(1, request_fields(x_large="a" * 17_000), flags=END)
    peer.expect_goaway(ENHANCE_YOUR_CALM)


def test_5_2_a_client_that_ignores_the_connections_window_is_closed(peer: Peer, face: Served):
    """Content of streams that are closed counts as well."""
    chunk = b"0" * face.limits.frame
    peer.headers(1)
    peer.send(frames.RST_STREAM, 0, 1, number(8))
    peer.infer(3)
    assert numbers_of(peer.reply(3)) == [2.0, 4.0]
    sent = 0
    peer.headers(5, request_fields("/nowhere"))  # is answered at once, so that what follows is ignored
    peer.expect(lambda frame: frame.kind == frames.RST_STREAM and frame.stream == 5)
    while sent <= face.limits.window:
        peer.data(5, chunk, end=False)
        sent += len(chunk)
    peer.expect(lambda frame: frame.kind == frames.WINDOW_UPDATE and frame.stream == 0)
    peer.expect_alive()


def test_6_9_a_stream_that_exceeds_its_window_is_reset(peer: Peer, face: Served):
    endless = b"\0" + number(face.limits.message) + b"0" * (face.limits.frame - 5)
    fields = request_fields("/inference.GRPCInferenceService/ModelStreamInfer")
    peer.headers(1, fields)
    for _ in range(face.limits.at_once):  # from now on it takes no more
        peer.data(1, message(ask("never")), end=False)
    peer.data(1, endless, end=False)
    for _ in range(face.limits.stream_window // face.limits.frame):
        peer.data(1, b"0" * face.limits.frame, end=False)
    peer.expect_reset(1, FLOW_CONTROL_ERROR)
