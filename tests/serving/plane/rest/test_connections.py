"""Bytes on the wire: framing, order, faults, slow and hostile clients."""

import http.client
import json
import socket
import ssl
import time
from pathlib import Path

import pytest

from falaj.app.certificates import self_signed
from falaj.serving.plane.certificates import Certificate
from falaj.serving.plane.rest.limits import Limits
from tests.serving.plane.rest.arithmetic import Arithmetic, Server
from tests.serving.plane.rest.wires import Wire, get, post, sum_request, wait_until

INFER = "/v2/models/sum/infer"
ONE = sum_request([1, 2, 3])
LIVE = b"GET /v2/health/live HTTP/1.1\r\nhost: a\r\n\r\n"


def test_requests_on_one_connection_are_answered_one_after_the_other(server: Server) -> None:
    with Wire(server) as wire:
        for number in range(5):
            wire.send(post(INFER, sum_request([number, 1, 1])))
            reply = wire.reply()
            assert (reply.status, reply.said["outputs"][0]["data"]) == (200, [number + 2.0])
            assert (reply.fields["x-falaj-revision"], reply.fields["x-falaj-model-version"]) == ("3", "7")
            assert "date" in reply.fields


def test_pipelined_requests_are_answered_in_order(server: Server, core: Arithmetic) -> None:
    core.hold = True
    with Wire(server) as wire:
        wire.send(b"".join(post(INFER, sum_request([number, 0, 0])) for number in range(100)))
        wait_until(lambda: len(core.held) == 1)
        server.call(core.release)
        for number in range(100):
            assert wire.reply().said["outputs"][0]["data"] == [float(number)]


def test_a_thousand_pipelined_requests_let_others_have_their_turn(server: Server) -> None:
    with Wire(server) as many, Wire(server) as one:
        many.send(LIVE * 1000)
        one.send(LIVE)
        assert one.reply().status == 200
        assert all(many.reply().status == 200 for _ in range(1000))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_a_request_in_small_pieces_is_the_same_request(server: Server, size: int) -> None:
    whole = post(INFER, ONE) + LIVE
    with Wire(server) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(whole), size):
            wire.send(whole[at : at + size])
        assert wire.reply().said["outputs"][0]["data"] == [6.0]
        assert wire.reply().status == 200


def test_a_body_in_chunks_is_put_together(server: Server) -> None:
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(ONE[at : at + 5]), ONE[at : at + 5]) for at in range(0, len(ONE), 5))
    head = b"POST %b HTTP/1.1\r\nhost: a\r\nauthorization: Bearer good\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    with Wire(server) as wire:
        wire.send(head + chunks + b"0\r\ntrailer: x\r\n\r\n" + LIVE)
        assert wire.reply().said["outputs"][0]["data"] == [6.0]
        assert wire.reply().status == 200


def test_a_hundred_thousand_tiny_chunks_harm_nobody(server: Server) -> None:
    body = sum_request(*[[1, 2, 3]] * 12_000)[:99_999] + b" " * 100
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body[:100_000])
    head = b"POST %b HTTP/1.1\r\nhost: a\r\nauthorization: Bearer good\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    with Wire(server) as wire, Wire(server) as other:
        wire.send(head)
        for at in range(0, len(chunks), 60_000):
            wire.send(chunks[at : at + 60_000])
            other.send(LIVE)
            assert other.reply().status == 200
        wire.send(b"0\r\n\r\n")
        assert wire.reply().status == 400  # cut JSON, but one whole body
    assert server.call(lambda: server.edge.shared.shares.taken) == 0


def test_more_chunks_than_are_taken_are_refused(server: Server) -> None:
    head = b"POST %b HTTP/1.1\r\nhost: a\r\nauthorization: Bearer good\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    with Wire(server) as wire:
        wire.send(head + b"1\r\nx\r\n" * 200_001)
        reply = wire.reply()
        assert (reply.status, reply.closes) == (413, True)


@pytest.mark.parametrize(
    "rest",
    [
        b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc",
        b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"content-length: 3, 3\r\n\r\nabc",
        b"content-length: +3\r\n\r\nabc",
        b"content-length: -3\r\n\r\nabc",
        b"content-length: 0x3\r\n\r\nabc",
        b"content-length: 3 \x0b\r\n\r\nabc",
        b"content-length:\r\n\r\n",
        b"content-length : 3\r\n\r\nabc",
        b" content-length: 3\r\n\r\nabc",
        b"x: 1\r\n content-length: 3\r\n\r\nabc",
        b"x: 1\r\n\tfolded\r\n\r\n",
        b"x: 1\ncontent-length: 3\r\n\r\nabc",
        b"x: 1\rcontent-length: 3\r\n\r\nabc",
        b"x: a\x00b\r\n\r\n",
        b"no colon here\r\n\r\n",
        b": no name\r\n\r\n",
        b"a b: 1\r\n\r\n",
        b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"transfer_encoding: chunked\r\ntransfer-encoding: cow\r\n\r\n0\r\n\r\n",
        b"host: another\r\n\r\n",
        b"authorization: Bearer good\r\nauthorization: Bearer bad\r\n\r\n",
    ],
)
def test_what_two_parsers_could_read_differently_ends_the_connection(server: Server, core: Arithmetic, rest: bytes) -> None:
    with Wire(server) as wire:
        wire.send(b"POST %b HTTP/1.1\r\nhost: a\r\n" % INFER.encode() + rest + LIVE)
        reply = wire.reply()
        assert (reply.status, reply.closes) == (400, True)
        assert "error" in reply.said
        assert wire.is_closed()
    assert core.asks == []


@pytest.mark.parametrize(
    "chunk",
    [
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"-3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3 \r\nabc\r\n",
        b"3\nabc\r\n",
        b"3\r\nabc\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabcX\r\n",
        b"3;a\nb\r\nabc\r\n",
        b"3;" + b"a" * 2000 + b"\r\nabc\r\n",
        b"\r\n",
        b"g\r\n",
        b"0\r\nx: " + b"a" * 20_000 + b"\r\n\r\n",
        b"fffffffffffffffff\r\nabc\r\n",
    ],
)
def test_chunks_that_are_not_plain_end_the_connection(server: Server, core: Arithmetic, chunk: bytes) -> None:
    head = b"POST %b HTTP/1.1\r\nhost: a\r\nauthorization: Bearer good\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    with Wire(server) as wire:
        wire.send(head + chunk + LIVE)
        reply = wire.reply()
        assert (reply.status, reply.closes) == (400, True)
        assert wire.is_closed()
    assert core.asks == []


NOT_HTTP = [
    b"GET /v2",
    b"GET  /v2 HTTP/1.1",
    b"GET /v2 HTTP/1.2",
    b"get /v2 HTTP/1.1",
    b"GET /\xff HTTP/1.1",
    b"GET v2 HTTP/1.1",
]


@pytest.mark.parametrize("line", NOT_HTTP)
def test_a_first_line_that_is_not_http_ends_the_connection(server: Server, line: bytes) -> None:
    with Wire(server) as wire:
        wire.send(line + b"\r\nhost: a\r\n\r\n")
        assert wire.reply().status == 400
        assert wire.is_closed()


def test_a_missing_host_is_refused_and_http_1_0_needs_none(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
        assert wire.reply().status == 400
    with Wire(server) as wire:
        wire.send(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        reply = wire.reply()
        assert (reply.status, reply.closes) == (200, True)
        assert wire.is_closed()


def test_http_1_0_may_keep_its_connection(server: Server) -> None:
    with Wire(server) as wire:
        for _ in range(2):
            wire.send(b"GET /v2/health/live HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            assert wire.reply().fields["connection"] == "keep-alive"


def test_connection_close_is_honoured_after_the_answer(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(post(INFER, ONE, "connection: close"))
        reply = wire.reply()
        assert (reply.status, reply.closes) == (200, True)
        assert wire.is_closed()


def test_a_client_that_asks_may_continue(server: Server) -> None:
    whole = post(INFER, ONE, "expect: 100-continue")
    with Wire(server) as wire:
        wire.send(whole[: -len(ONE)])
        assert wire.reply().status == 100
        wire.send(ONE)
        assert wire.reply().status == 200
        wire.send(post(INFER, ONE, "expect: 100-continue", token="bad")[: -len(ONE)])
        assert wire.reply().status == 401
    with Wire(server) as wire:
        wire.send(post(INFER, ONE, "expect: a-miracle"))
        assert wire.reply().status == 417


def test_head_has_the_head_of_get_and_options_says_what_there_is(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(LIVE.replace(b"GET", b"HEAD"))
        reply = wire.reply(is_head=True)
        assert (reply.status, reply.fields["content-length"]) == (200, "13")
        wire.send(LIVE.replace(b"GET", b"OPTIONS"))
        reply = wire.reply()
        assert (reply.status, reply.fields["allow"]) == (204, "GET, HEAD, OPTIONS")
        wire.send(LIVE.replace(b"GET", b"DELETE"))
        reply = wire.reply()
        assert (reply.status, reply.fields["allow"]) == (405, "GET, HEAD, OPTIONS")
        wire.send(get("/nowhere"))
        assert wire.reply().status == 404
        wire.send(LIVE)
        assert wire.reply().status == 200


def test_names_in_paths_are_unquoted_one_by_one(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(get("/v2/models/s%75m?x=1"))
        assert wire.reply().said["name"] == "sum"
        wire.send(get("/v2/models/a%2Fb"))
        assert wire.reply().said["error"] == "there is no endpoint 'a/b'"
        wire.send(get("http://here/v2/models/sum"))
        assert wire.reply().status == 200
        wire.send(get("/v2/models/%ff"))
        assert wire.reply().status == 400


def test_the_standard_library_gets_along(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for _ in range(3):
        connection.request("POST", INFER, ONE, {"authorization": "Bearer good"})
        response = connection.getresponse()
        assert json.loads(response.read())["outputs"][0]["data"] == [6.0]
    connection.request("POST", INFER, iter([ONE[:10], ONE[10:]]), {"authorization": "Bearer good"}, encode_chunked=True)
    assert connection.getresponse().read()
    connection.request("GET", "/metrics")
    assert connection.getresponse().read() == b"requests_total 1\n"
    connection.close()


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        (("x-falaj-key: often",), 429, {"retry-after": "3"}),
        (("x-falaj-deadline-ms: 0",), 504, {}),
        (("x-falaj-deadline-ms: soon",), 400, {}),
        (("inference-header-content-length: x",), 400, {}),
        (("content-encoding: br",), 415, {}),
    ],
)
def test_errors_have_their_status_and_keep_the_connection(
    server: Server, lines: tuple[str, ...], status: int, said: dict[str, str]
) -> None:
    with Wire(server) as wire:
        wire.send(post(INFER, ONE, *lines))
        reply = wire.reply()
        assert reply.status == status
        assert said.items() <= reply.fields.items()
        assert reply.said["error"]
        wire.send(LIVE)
        assert wire.reply().status == 200


def test_what_fails_inside_is_told_to_the_operator_alone(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(post(INFER, ONE, "x-falaj-key: broken"))
        reply = wire.reply()
    assert reply.status == 500
    assert b"secret" not in reply.body
    assert [str(error) for error in server.errors] == ["a secret of the inside"]


def test_sticky_key_override_and_deadline_reach_the_core(server: Server, core: Arithmetic) -> None:
    with Wire(server) as wire:
        wire.send(post(INFER, ONE, "X-Falaj-Key: anna", "x-falaj-revision: 2", "x-falaj-deadline-ms: 250"))
        assert wire.reply().fields["x-falaj-revision"] == "2"
    [ask] = core.asks
    assert (ask.token, ask.endpoint, ask.key, ask.override) == ("good", "sum", "anna", "2")
    assert ask.deadline == pytest.approx(ask.arrived + 0.25)
    assert abs(ask.arrived - server.call(server.loop.time)) < 5


def test_a_head_that_is_too_large_is_refused(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(b"GET /v2 HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 70_000)
        assert wire.reply().status == 431
        assert wire.is_closed()
    with Wire(server) as wire:
        wire.send(b"GET /v2 HTTP/1.1\r\nhost: a\r\n" + b"x: 1\r\n" * 300 + b"\r\n")
        assert wire.reply().status == 431


def test_a_body_that_is_too_large_is_refused_before_it_comes(core: Arithmetic) -> None:
    with Server(core, limits=Limits(body=10_000)) as server:
        with Wire(server) as wire:
            wire.send(post(INFER, b"x" * 10_001))
            reply = wire.reply()
            assert (reply.status, reply.closes) == (413, True)
        with Wire(server) as wire:
            head = b"POST %b HTTP/1.1\r\nhost: a\r\nauthorization: Bearer good\r\ntransfer-encoding: chunked\r\n\r\n"
            wire.send(head % INFER.encode() + b"2711\r\n")
            assert wire.reply().status == 413


@pytest.mark.parametrize("token", ["good", "bad"])
def test_a_token_that_is_new_is_looked_at_with_the_address_it_comes_from(server: Server, core: Arithmetic, token: str) -> None:
    asked = [
        post(INFER, ONE, token=token),
        post(INFER, ONE + b" " * 40_000, token=token),
        post("/v2/endpoints/sum/predict", b'{"rows":[[1,2,3]]}', token=token),
        get("/v2/models/sum", token=token),
        get("/v2/models/sum/ready", token=token),
        post("/v2/repository/index", b"", token=token),
        post("/v2/repository/models/sum/load", b"{}", token=token),
        get("/metrics", token=token),
    ]
    for request in asked:
        core.sources.clear()
        with Wire(server) as wire:
            wire.send(request)
            assert wire.reply().status == (200 if token == "good" else 401)
        assert core.sources == {"127.0.0.1"}
    with Wire(server) as wire:
        wire.send(get("/v2/health/live", token=token))
        assert wire.reply().status == 200


def test_a_large_body_is_not_received_from_those_who_may_not_ask(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(post(INFER, b"", token="bad").replace(b"content-length: 0", b"content-length: 9000000"))
        reply = wire.reply()
        assert (reply.status, reply.closes) == (401, True)


def test_unfinished_bodies_together_are_bounded(core: Arithmetic) -> None:
    with Server(core, limits=Limits(buffered=1_000_000)) as server:
        start = post(INFER, b"").replace(b"content-length: 0", b"content-length: 600000")
        with Wire(server) as first, Wire(server) as second:
            first.send(start + b" " * 590_000)
            wait_until(lambda: server.edge.shared.shares.taken == 590_000)
            second.send(start + b" " * 590_000)
            reply = second.reply()
            assert (reply.status, reply.fields["retry-after"]) == (503, "1")
            first.send(b" " * 10_000)
            assert first.reply().status == 400
        wait_until(lambda: server.edge.shared.shares.taken == 0)


def test_bodies_that_one_project_leaves_unfinished_do_not_take_anothers_room(core: Arithmetic) -> None:
    with Server(core, limits=Limits(buffered=1_000_000)) as server:
        start = post(INFER, b"").replace(b"content-length: 0", b"content-length: 90000")
        flood = [Wire(server) for _ in range(30)]
        for one in flood:
            one.send(start + b" " * 80_000)
        taken = server.edge.shared.shares.of("alpha")
        wait_until(lambda: taken.taken > 500_000)
        body = sum_request([1, 2, 3]) + b" " * 200_000
        with Wire(server) as other:
            for _ in range(5):
                other.send(post(INFER, body, token="beta"))
                assert other.reply().status == 200
                assert taken.taken > 500_000
        for one in flood:
            one.socket.close()
        wait_until(lambda: server.edge.shared.shares.taken == 0)


def test_a_client_that_does_not_read_under_tls_is_ended_and_others_are_not(core: Arithmetic, tmp_path: Path) -> None:
    files = self_signed(tmp_path, ["localhost"])
    trusting = ssl.create_default_context(cafile=str(files[0]))
    count = 3_000_000
    head = {"name": "x", "datatype": "FP32", "shape": [count], "parameters": {"binary_data_size": 4 * count}}
    text = json.dumps({"inputs": [head], "parameters": {"binary_data_output": True}}).encode()
    large = post("/v2/models/echo/infer", text + bytes(4 * count), f"inference-header-content-length: {len(text)}")
    with Server(core, limits=Limits(stalled=1.0, receive=1.0), tls=Certificate(*map(str, files)).context) as server:

        def connect() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            return trusting.wrap_socket(plain, server_hostname="localhost")

        with connect() as stuck, connect() as dawdling, connect() as other:
            stuck.sendall(large)
            dawdling.sendall(post(INFER, ONE + b" " * 100_000)[:50_000])
            wait_until(lambda: len(core.asks) == 1)
            for _ in range(40):
                other.sendall(post(INFER, ONE))
                assert other.recv(12) == b"HTTP/1.1 200"
                other.recv(65_536)
                time.sleep(0.1)
            wait_until(lambda: server.call(lambda: server.edge.connections) == 1)
            assert server.edge.shared.shares.taken == 0


def test_a_request_that_comes_too_slowly_is_ended(core: Arithmetic) -> None:
    with Server(core, limits=Limits(receive=0.5)) as server, Wire(server) as head, Wire(server) as body, Wire(server) as silent:
        head.send(b"GET /v2 HTTP/1.1\r\n")
        body.send(post(INFER, ONE)[:-5])
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                head.send(b"x: y\r\n")
            except OSError:
                break
            time.sleep(0.2)
        assert body.reply().status == 408
        assert head.reply().status == 408
        assert silent.is_closed()


def test_an_idle_connection_is_closed(core: Arithmetic) -> None:
    with Server(core, limits=Limits(idle=0.5)) as server, Wire(server) as wire:
        wire.send(LIVE)
        assert wire.reply().status == 200
        assert wire.is_closed()


def test_a_reader_that_does_not_read_is_dropped_and_holds_a_bounded_amount(core: Arithmetic) -> None:
    body = sum_request(*[[1, 2, 3]] * 20_000).replace(b'"x"', b'"y"')
    with Server(core, limits=Limits(stalled=1.0)) as server, Wire(server) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.socket.settimeout(15)
        request = post("/v2/models/echo/infer", body)
        with pytest.raises((ConnectionError, TimeoutError)):
            wire.send(request * 300)
        assert len(core.asks) < 100
        wait_until(lambda: server.edge.connections == 0, 10)


def test_more_connections_than_are_taken_are_told_to_come_back(core: Arithmetic) -> None:
    with Server(core, limits=Limits(connections=2)) as server, Wire(server) as first, Wire(server) as second:
        first.send(LIVE)
        second.send(LIVE)
        assert (first.reply().status, second.reply().status) == (200, 200)
        with Wire(server) as third:
            assert third.reply().status == 503
            assert third.is_closed()
        first.send(LIVE)
        assert first.reply().status == 200


def test_a_client_that_hangs_up_is_gone(server: Server, core: Arithmetic) -> None:
    core.hold = True
    with Wire(server) as wire:
        wire.send(post(INFER, ONE))
        wait_until(lambda: core.held)
    wait_until(lambda: core.held[0].reply.gone)
    server.call(core.release)
    assert server.errors == []


def test_draining_finishes_what_is_under_way_and_closes_what_is_idle(core: Arithmetic) -> None:
    core.hold = True
    with Server(core) as server, Wire(server) as busy, Wire(server) as idle, Wire(server) as late:
        busy.send(post(INFER, ONE))
        idle.send(LIVE)
        late.send(LIVE)
        assert (idle.reply().status, late.reply().status) == (200, 200)
        wait_until(lambda: core.held)
        server.loop.call_soon_threadsafe(lambda: server.edge.shared.spawn(server.edge.drain(5)))
        wait_until(lambda: server.edge.shared.leaving)
        late.send(LIVE)
        reply = late.reply()
        assert (reply.status, reply.closes) == (200, True)
        assert idle.is_closed()
        server.call(core.release)
        reply = busy.reply()
        assert (reply.status, reply.closes) == (200, True)
        assert busy.is_closed()


def test_an_answer_survives_although_the_client_is_still_sending(core: Arithmetic) -> None:
    with Server(core, limits=Limits(body=1000)) as server:
        for _ in range(20):
            with Wire(server) as wire:
                wire.send(post(INFER, b"x" * 500_000))
                assert wire.reply().status == 413
