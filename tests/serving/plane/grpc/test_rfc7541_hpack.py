"""HPACK by the cases of h2spec's `hpack` part: before the client acknowledged our settings, and after."""

from collections.abc import Iterator

import pytest

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.frames import COMPRESSION_ERROR
from tests.serving.plane.grpc.peer import END, LIVE, Peer, message, request_fields
from tests.serving.plane.grpc.serving import Served


@pytest.fixture(params=["stateful", "stateless"])
def client(face: Served, request: pytest.FixtureRequest) -> Iterator[Peer]:
    with Peer(face.port, greet=False) as peer:
        if request.param == "stateful":
            peer.raw(frames.PREFACE + frames.settings({}))
        else:
            peer.greet()
        peer.headers(1, request_fields(LIVE))
        peer.data(1, message(b""))
        assert peer.reply(1).status == 0
        yield peer


BROKEN = {
    "2_3_3_1_an_index_outside_the_tables": b"\xff\x80\x01",
    "2_3_3_2_a_literal_whose_name_is_outside_the_tables": b"\x7f\xff\x01\x05value",
    "4_2_1_a_size_update_at_the_blocks_end": b"\x82\x20",
    "5_1_1_a_number_without_end": b"\xff" + b"\xff" * 20,
    "5_1_2_a_number_that_is_cut": b"\xff\xff",
    "5_2_0_a_string_that_is_cut": b"\x00\x01x\x7f",
    "5_2_1_padding_of_more_than_seven_bits": b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff",
    "5_2_2_padding_of_zeros": b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90",
    "5_2_3_an_end_of_string": b"\x00\x85\xf2\xb2\x4a\x84\xff\x87\x49\x51\xff\xff\xff\xfa\x7f",
    "6_1_1_the_index_0": b"\x80",
    "6_3_1_a_size_update_beyond_the_limit": b"\x3f\xe1\xff\x07",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_block_that_cannot_be_decoded_ends_the_connection(client: Peer, broken: bytes):
    at_start = broken[0] & 0xE0 == 0x20
    block = broken + client.block() if at_start else client.block() + broken
    client.send(frames.HEADERS, END, 3, block)
    client.expect_goaway(COMPRESSION_ERROR)


def test_4_2_2_a_client_that_acknowledged_no_table_cannot_have_one_again(face: Served):
    with Peer(face.port) as peer:
        peer.headers(1, request_fields(LIVE))
        peer.data(1, message(b""))
        assert peer.reply(1).status == 0
        peer.send(frames.HEADERS, END, 3, b"\x21" + peer.block(request_fields(LIVE)))
        peer.expect_goaway(COMPRESSION_ERROR)
