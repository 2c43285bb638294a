"""Clients that mean harm: what they can cost is bounded, and others do not notice."""

import gc
import gzip
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.frames import ENHANCE_YOUR_CALM
from falaj.serving.plane.grpc.limits import MIB, Limits
from tests.serving.plane.grpc.peer import END, INFER, LIVE, STREAM, Peer, ask, message, request_fields
from tests.serving.plane.grpc.serving import Served, served

CANCEL = struct.pack(">I", frames.CANCEL)
LIMITS = Limits(receiving=0.6, reading=0.6, idle=1.2, held=8 * MIB, message=6 * MIB)


@pytest.fixture(scope="module")
def impatient() -> Iterator[Served]:
    with served(LIMITS) as running:
        yield running


def flood(peer: Peer, piece: Callable[[int], bytes], times: int = 200) -> None:
    """Sends until the server closes, without ever reading; then looks for its last words."""
    for turn in range(times):
        try:
            peer.raw(b"".join(piece(turn * 100 + each) for each in range(100)))
        except (BrokenPipeError, ConnectionResetError):
            break
    peer.expect_goaway(ENHANCE_YOUR_CALM)


def others_are_served(face: Served) -> None:
    with Peer(face.port) as other:
        other.infer(1)
        other.expect_answer(1)


FLOODS = {
    "pings": frames.frame(frames.PING, 0, 0, b"12345678"),
    "answers_to_pings": frames.frame(frames.PING, frames.ACK, 0, b"12345678"),
    "settings": frames.settings({frames.MAX_CONCURRENT_STREAMS: 1}),
    "settings_of_many_entries": frames.frame(frames.SETTINGS, 0, 0, struct.pack(">HI", 0xFF, 1) * 1000),
    "acknowledgements": frames.SETTINGS_ACK,
    "priorities": frames.frame(frames.PRIORITY, 0, 1, struct.pack(">IB", 0, 1)),
    "unknown_frames": frames.frame(0x77, 0, 0, b""),
    "window_updates": frames.window_update(0, 1),
    "empty_data": frames.frame(frames.DATA, 0, 1),
    "padded_empty_data": frames.frame(frames.DATA, frames.PADDED, 1, b"\x0a" + b"\0" * 10),
    "window_updates_of_a_stream": frames.window_update(1, 1),
}


@pytest.mark.parametrize("piece", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_of_frames_that_ask_for_nothing_is_cut_off(face: Served, piece: bytes):
    with Peer(face.port) as peer:
        peer.headers(1, request_fields(STREAM))
        flood(peer, lambda _: piece)
    others_are_served(face)


def test_rapid_resets_are_cut_off(face: Served):
    """CVE-2023-44487: requests that are cancelled at once never count as concurrent."""
    computed = face.core.computed
    with Peer(face.port) as peer:
        peer.block()  # says that the table has no size
        block = peer.block()
        asked = message(ask())

        def piece(turn: int) -> bytes:
            id = 2 * turn + 1
            head = frames.frame(frames.HEADERS, frames.END_HEADERS, id, block)
            return head + frames.frame(frames.DATA, 1, id, asked) + frames.frame(frames.RST_STREAM, 0, id, CANCEL)

        peer.send(frames.HEADERS, END, 1, b"\x20" + block)
        flood(peer, lambda turn: piece(turn + 1))
    assert face.core.computed - computed < 1500
    assert face.open_streams() == 0
    others_are_served(face)


def test_resets_that_the_server_is_made_to_send_are_cut_off(face: Served):
    """CVE-2025-8671: the client breaks a rule on each stream instead of resetting it."""
    with Peer(face.port) as peer:
        peer.block()
        block = peer.block()
        peer.send(frames.HEADERS, END, 1, b"\x20" + block)

        def piece(turn: int) -> bytes:
            id = 2 * turn + 3
            return frames.frame(frames.HEADERS, frames.END_HEADERS, id, block) + frames.window_update(id, 0)

        flood(peer, piece)
    others_are_served(face)


def test_streams_beyond_the_limit_are_refused_and_then_cut_off(face: Served):
    with Peer(face.port) as peer:
        peer.block()
        block = peer.block()
        peer.send(frames.HEADERS, frames.END_HEADERS, 1, b"\x20" + block)
        flood(peer, lambda turn: frames.frame(frames.HEADERS, frames.END_HEADERS, 2 * turn + 3, block))


def test_work_that_goes_on_after_a_reset_counts_as_a_stream(face: Served):
    """Else each reset would make room for more work."""
    with Peer(face.port) as peer:
        for stream in range(1, 200, 2):
            peer.infer(stream, "never")
        peer.expect_alive()
        for stream in range(1, 200, 2):
            peer.send(frames.RST_STREAM, 0, stream, CANCEL)
        peer.infer(201)
        peer.expect_reset(201, frames.REFUSED_STREAM)
        asks = face.core.held[-100:]
        assert all(ask.reply.gone for ask in asks)
        face.do(lambda: [ask.reply.refuse(ValueError()) for ask in asks])
        peer.infer(203)
        peer.expect_answer(203)


def test_continuations_without_end_are_cut_off(face: Served):
    """CVE-2024-27316 and its kin."""
    for part in (b"", b"\x00\x01x\x01y" * 100):
        with Peer(face.port) as peer:
            peer.headers(1, flags=0)
            flood(peer, lambda _, part=part: frames.frame(frames.CONTINUATION, 0, 1, part))
    others_are_served(face)


def test_a_header_bomb_is_not_unfolded(face: Served):
    """A few bytes that refer again and again to a large entry of the table."""
    with Peer(face.port, greet=False) as peer:
        peer.raw(frames.PREFACE + frames.settings({}))
        bomb = peer.block() + b"\x40\x01x\x7f\x81\x1e" + b"a" * 4000 + b"\xbe" * 10_000
        before = time.thread_time(), time.process_time()
        peer.send(frames.HEADERS, END, 1, bomb)
        peer.expect_goaway(ENHANCE_YOUR_CALM)
        ours, theirs = time.thread_time() - before[0], time.process_time() - before[1]
        assert theirs - ours < 2
    others_are_served(face)


def test_header_blocks_that_take_long_to_decode_are_cut_off(face: Served):
    huffman = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
    tail = huffman.encode(b"aeiou" * 1600)
    size = 10 + len(tail) - 127
    length = bytes((0xFF, size & 127 | 128, size >> 7))

    def piece(turn: int) -> bytes:
        different = huffman.encode(f"{turn:016b}".encode())  # five bits each, so that the rest begins with a byte
        field = b"\x00\x01x" + length + different + tail
        return frames.frame(frames.HEADERS, END, 2 * turn + 3, block + field)

    with Peer(face.port) as peer:
        peer.headers(1, request_fields(LIVE), flags=END)
        block = peer.block(request_fields(LIVE))
        flood(peer, piece, times=10)
    others_are_served(face)


def test_a_compressed_bomb_is_not_unfolded(peer: Peer):
    bomb = gzip.compress(b"\0" * 60 * MIB)
    peer.headers(1, request_fields(grpc_encoding="gzip"))
    whole = message(bomb, compressed=1)
    for at in range(0, len(whole), 16_384):
        peer.data(1, whole[at : at + 16_384], end=at + 16_384 >= len(whole))
    reply = peer.reply(1)
    assert reply.status == 8
    assert "unfolds" in reply.message


def test_a_message_that_is_announced_too_large_is_refused_before_it_comes(peer: Peer):
    peer.headers(1)
    peer.data(1, struct.pack(">BI", 0, 2**32 - 1), end=False)
    assert peer.reply(1).status == 8


def test_a_request_that_does_not_arrive_is_given_up(impatient: Served):
    with Peer(impatient.port) as peer:
        peer.headers(1)
        peer.data(1, message(ask())[:20], end=False)
        assert peer.reply(1).status == 4
        assert impatient.held() == 0


def test_requests_that_one_project_leaves_unfinished_do_not_take_anothers_room(impatient: Served):
    part = message(bytes(2 * MIB))[:MIB]  # as much as a stream's window lets it
    wide = {frames.INITIAL_WINDOW_SIZE: 2**31 - 1}
    with Peer(impatient.port) as flooding, Peer(impatient.port, settings=wide) as other:
        other.send(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
        for stream in range(1, 25, 2):
            flooding.headers(stream, request_fields(authorization="Bearer a"))
            for at in range(0, len(part), 1 << 14):
                flooding.data(stream, part[at : at + (1 << 14)], end=False)
        flooding.expect_alive()
        assert impatient.do(lambda: impatient.shared.held.of("a").taken) > 4 * MIB
        other.headers(1, request_fields(authorization="Bearer b"))
        whole = message(ask(numbers=[1.0] * (MIB // 8)))
        for at in range(0, len(whole), 1 << 14):
            other.data(1, whole[at : at + (1 << 14)], end=at + (1 << 14) >= len(whole))
        other.expect_answer(1, [2.0] * (MIB // 8))
    others_are_served(impatient)


def test_a_frame_that_does_not_arrive_ends_the_connection(impatient: Served):
    with Peer(impatient.port) as peer:
        peer.raw(frames.head(100, frames.DATA, 0, 1) + b"12")
        peer.expect_goaway(frames.PROTOCOL_ERROR)


def test_a_client_that_says_nothing_at_all_is_closed(impatient: Served):
    with Peer(impatient.port, greet=False) as peer:
        peer.expect_goaway(frames.PROTOCOL_ERROR)


def test_a_header_block_that_does_not_end_is_given_up(impatient: Served):
    with Peer(impatient.port) as peer:
        peer.headers(1, flags=0)
        peer.expect_goaway(frames.PROTOCOL_ERROR)


def test_an_idle_connection_is_closed_in_peace(impatient: Served):
    with Peer(impatient.port) as peer:
        peer.infer(1)
        peer.expect_answer(1)
        peer.expect_goaway(frames.NO_ERROR)


def test_a_stream_may_be_silent_as_long_as_its_client_answers_pings(impatient: Served):
    with Peer(impatient.port) as peer:
        peer.headers(1, request_fields(STREAM))
        for _ in range(3):
            ping = peer.expect(lambda frame: frame.kind == frames.PING)
            peer.send(frames.PING, frames.ACK, 0, ping.payload)
        peer.data(1, message(ask()))
        assert peer.reply(1).status == 0


def test_a_client_that_does_not_answer_pings_is_gone(impatient: Served):
    with Peer(impatient.port) as peer:
        peer.headers(1, request_fields(STREAM))
        while peer.next() is not None:
            pass
        assert peer.ended


def test_answers_that_nobody_reads_are_given_up(impatient: Served):
    """The window stays shut; what waits for it is counted, and let go."""
    with Peer(impatient.port, settings={frames.INITIAL_WINDOW_SIZE: 0}) as peer:
        for stream in (1, 3, 5):
            peer.infer(stream, "grow", [float(MIB)])
        peer.expect_alive()
        assert impatient.held() > 3 * MIB
        while peer.next() is not None:
            pass
    assert impatient.held() == 0
    assert impatient.open_streams() == 0


def test_a_client_that_reads_byte_by_byte_is_given_up(impatient: Served):
    with Peer(impatient.port, settings={frames.INITIAL_WINDOW_SIZE: 1}) as peer:
        peer.infer(1, "grow", [float(MIB)])
        pieces = 0
        while (frame := peer.next()) is not None and pieces < 1000:
            if frame.kind == frames.DATA:
                pieces += 1
                time.sleep(0.02)
                try:
                    peer.send(frames.WINDOW_UPDATE, 0, 1, struct.pack(">I", 1))
                except (BrokenPipeError, ConnectionResetError):
                    break
        assert pieces < 1000
    assert impatient.held() == 0


def test_large_answers_beyond_what_may_be_held_are_refused(impatient: Served):
    with Peer(impatient.port, settings={frames.INITIAL_WINDOW_SIZE: 0}) as peer:
        for stream in (1, 3, 5):
            peer.infer(stream, "grow", [float(4 * MIB - 1000)])
        assert peer.reply(5).status == 14
    others_are_served(impatient)


def test_large_requests_beyond_what_may_be_held_are_refused(impatient: Served):
    with Peer(impatient.port, timeout=10) as peer:
        chunk = b"0" * 16_384
        for stream in (1, 3):
            peer.headers(stream)
            peer.data(stream, struct.pack(">BI", 0, 5 * MIB), end=False)
        refused = set()
        for _ in range(5 * MIB // len(chunk) - 1):
            for stream in {1, 3} - refused:
                peer.data(stream, chunk, end=False)
            peer.socket.settimeout(0.001)
            try:
                while (frame := peer.next()) is not None:
                    if frame.kind == frames.HEADERS:
                        assert dict(peer.decoder.decode(frame.payload))["grpc-status"] == "14"
                        refused.add(frame.stream)
            except TimeoutError:
                pass
            peer.socket.settimeout(10)
        assert len(refused) == 1
    others_are_served(impatient)


def test_a_client_that_never_reads_cannot_make_the_server_keep_its_answers(impatient: Served):
    """The socket is full, so that nothing more is read of it, and in the end it is closed."""
    with Peer(impatient.port, settings={frames.INITIAL_WINDOW_SIZE: 2**31 - 1}) as peer:
        peer.send(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
        peer.socket.setblocking(False)
        stream, sent = 1, 0
        closed = False
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not closed:
            piece = frames.frame(frames.HEADERS, frames.END_HEADERS, stream, peer.block())
            piece += frames.frame(frames.DATA, 1, stream, message(ask("grow", [200_000.0])))
            try:
                peer.socket.setblocking(True)
                peer.socket.settimeout(0.3)
                peer.socket.sendall(piece)
                sent += 1
                stream += 2
            except TimeoutError:
                time.sleep(0.1)
                closed = impatient.do(lambda: not impatient.shared.connections)
            except (BrokenPipeError, ConnectionResetError):
                closed = True
        assert closed
    assert impatient.held() == 0


def test_a_stream_of_requests_is_worked_on_a_few_at_a_time(peer: Peer, face: Served):
    peer.headers(1, request_fields(STREAM))
    for _ in range(face.limits.at_once + 20):
        peer.data(1, message(ask("never")), end=False)
    before = len(face.core.held)
    peer.expect_alive()
    time.sleep(0.05)
    started = [asked for asked in face.core.held if not asked.reply.gone]
    assert len(started) == face.limits.at_once
    face.do(lambda: [asked.reply.refuse(ValueError("x")) for asked in started])
    time.sleep(0.05)
    assert len([asked for asked in face.core.held if not asked.reply.gone]) - len(started) <= face.limits.at_once
    assert before >= 0


def test_a_path_that_does_not_exist_is_not_echoed_without_bound(peer: Peer):
    peer.headers(1, request_fields(INFER + "x" * 5000), flags=END)
    reply = peer.reply(1)
    assert reply.status == 12
    assert len(reply.message) < 400


def test_a_hundred_thousand_tiny_chunks_are_cut_off(face: Served):
    with Peer(face.port) as peer:
        peer.headers(1)
        peer.data(1, struct.pack(">BI", 0, 60 * MIB), end=False)
        flood(peer, lambda _: frames.frame(frames.DATA, 0, 1, b"0"), times=1000)
    others_are_served(face)
    assert face.held() == 0


def test_settings_are_not_more_than_there_are(peer: Peer):
    peer.send(frames.SETTINGS, 0, 0, struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, 1) * 65)
    peer.expect_goaway(ENHANCE_YOUR_CALM)


def test_floods_leave_nothing_behind(face: Served):
    """The same harm done again and again takes no more memory than it did at first."""

    def harm() -> None:
        for piece in (FLOODS["pings"], FLOODS["empty_data"], FLOODS["unknown_frames"]):
            with Peer(face.port) as peer:
                peer.headers(1, request_fields(STREAM))
                flood(peer, lambda _, piece=piece: piece, times=20)
        with Peer(face.port) as peer:
            for stream in range(1, 150, 2):
                peer.headers(stream, request_fields(x_falaj_key=f"{stream}" * 100))
                peer.data(stream, message(ask("never"))[:-4], end=False)
            peer.expect_alive()

    def size() -> int:
        deadline = time.monotonic() + 60
        while face.do(lambda: len(face.shared.connections)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return face.do(lambda: (gc.collect(), len(gc.get_objects()))[1])

    harm()
    before = size()
    for _ in range(10):
        harm()
    assert size() < before * 1.01 + 500
    assert face.held() == 0


def test_connections_beyond_the_limit_are_closed_and_those_that_are_open_go_on():
    with served(Limits(connections=2)) as face, Peer(face.port) as one, Peer(face.port) as other:
        one.infer()
        one.expect_answer()
        other.infer()
        other.expect_answer()
        with Peer(face.port, greet=False) as third:
            third.expect_goaway(ENHANCE_YOUR_CALM)
        one.infer(3)
        one.expect_answer(3)
