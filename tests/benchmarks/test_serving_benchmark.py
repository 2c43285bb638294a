"""The serving benchmark measures what it says: right answers only, no stall hidden, the least disturbed try, the best peer."""

import asyncio
import json
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # where its modules find each other

import serving  # noqa: E402
from serving_peers import generators, request_files  # noqa: E402
from serving_peers.generators import Generators, Load  # noqa: E402
from serving_peers.request_files import BINARY, FORMS, GRPC, JSON, Questions, Target  # noqa: E402
from serving_peers.server_processes import free_ports  # noqa: E402

ROWS = [array("f", [number, 0.5]).tobytes() for number in range(20)]
# The model adds one to its first number and doubles its second.
QUESTIONS = Questions(
    name="small",
    file=Path("small.onnx"),
    shape=(2,),
    rows=tuple(ROWS),
    answers=tuple((number + 1.0, 1.0) for number in range(20)),
)
TARGETS = [Target(path=f"/v2/models/m{number}/infer", model=f"m{number}", token=f"t{number}") for number in range(4)]
LOAD = Load(requests=1000, seconds=2.0, p50_ms=1.0, p90_ms=2.0, p99_ms=3.0, max_ms=4.0, errors=0, non2xx=0)


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def grpc_message(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def right_answers(numbers: Callable[[list[float]], bytes]) -> list[bytes]:
    return [numbers(list(answer)) for answer in QUESTIONS.answers]


def as_json(numbers: list[float]) -> bytes:
    return json.dumps({"outputs": [{"name": "y", "data": numbers}]}).encode()


def as_binary(numbers: list[float]) -> bytes:
    raw = array("f", numbers).tobytes()
    return json.dumps({"outputs": [{"name": "y", "parameters": {"binary_data_size": len(raw)}}]}).encode() + raw


def as_raw_grpc(numbers: list[float]) -> bytes:
    return grpc_message(field(1, b"m") + field(5, field(1, b"y") + b"\x18\x01") + field(6, array("f", numbers).tobytes()))


def as_typed_grpc(numbers: list[float]) -> bytes:
    contents = field(6, array("f", numbers).tobytes())
    return grpc_message(field(1, b"m") + field(5, field(1, b"y") + field(5, contents)))


ANSWERS = [("json", as_json), ("plain", lambda numbers: json.dumps({"y": [numbers]}).encode())]
ANSWERS += [("binary", as_binary), ("grpc", as_raw_grpc), ("grpc", as_typed_grpc)]


@pytest.mark.parametrize(("form", "answer"), ANSWERS)
def test_answers_are_read_in_every_form_and_a_wrong_one_is_named(form: str, answer: Callable[[list[float]], bytes]):
    right = right_answers(answer)
    assert request_files.first_wrong(FORMS[form], QUESTIONS, right) == ""
    swapped = [*right[:7], right[8], right[7], *right[9:]]
    assert request_files.first_wrong(FORMS[form], QUESTIONS, swapped).startswith("row 7: [9.0, 1.0] instead of [8.0, 1.0]")
    assert "is no answer" in request_files.first_wrong(FORMS[form], QUESTIONS, [b"nothing", *right[1:]])
    assert "19 answers to 20 rows" in request_files.first_wrong(FORMS[form], QUESTIONS, right[1:])


def test_every_row_is_sent_once_to_one_target_after_the_other():
    made = list(request_files.records(JSON, QUESTIONS, TARGETS, "127.0.0.1:80"))
    assert len(made) == 20
    for number, (head, body) in enumerate(made):
        assert f"POST /v2/models/m{number % 4}/infer HTTP/1.1\r\n".encode() in head
        assert f"authorization: Bearer t{number % 4}\r\n".encode() in head
        assert f"content-length: {len(body)}\r\n".encode() in head
        assert json.loads(body)["inputs"][0]["data"] == [number, 0.5]


def test_a_binary_request_says_where_its_numbers_begin():
    [(head, body), *_] = request_files.records(BINARY, QUESTIONS, TARGETS, "127.0.0.1:80")
    size = int(head.partition(b"inference-header-content-length: ")[2].partition(b"\r\n")[0])
    assert body[size:] == ROWS[0]
    assert json.loads(body[:size])["inputs"][0]["parameters"] == {"binary_data_size": len(ROWS[0])}


def test_a_grpc_request_is_one_message_with_the_row_in_it():
    [(head, body), *_] = request_files.records(GRPC, QUESTIONS, TARGETS, "127.0.0.1:80")
    assert b":path: /inference.GRPCInferenceService/ModelInfer\n" in head
    tensor = field(1, b"x") + field(2, b"FP32") + field(3, b"\x01\x02")
    assert body == grpc_message(field(1, b"m0") + field(5, tensor) + field(7, ROWS[0]))


# --- the generator, on a real server -----------------------------------------------------------------------------------------


class SmallServer:
    """Answers rightly, but refuses the rows it is told to, and stands still once when it is told to."""

    def __init__(self) -> None:
        self.refuses, self.stalls, self.chunked = set[float](), 0.0, False
        self.port, self._started = free_ports(1), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._talk, "127.0.0.1", self.port):
            self._started.set()
            await self._stopped.wait()

    def __enter__(self) -> "SmallServer":
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                first, second = json.loads(await reader.readexactly(length))["inputs"][0]["data"]
                if self.stalls:
                    stall, self.stalls = self.stalls, 0.0
                    threading.Event().wait(stall)  # the whole server
                writer.write(self._answer(first, second))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is done
        finally:
            writer.close()

    def _answer(self, first: float, second: float) -> bytes:
        if first in self.refuses:
            return b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 9\r\n\r\nnot today"
        body = as_json([first + 1, second * 2])
        if self.chunked:
            parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:]))
            return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("load") / "load"
    source = BENCHMARKS / "serving_peers" / "load.c"
    subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-o", made, source, "-lnghttp2"], check=True)
    return made


@pytest.fixture
def load(program: Path, tmp_path: Path) -> Generators:
    return Generators(program=program, answers=tmp_path / "answers")


@pytest.fixture
def server() -> Iterator[SmallServer]:
    with SmallServer() as running:
        yield running


@pytest.fixture
def requests(server: SmallServer, tmp_path: Path) -> Path:
    made = request_files.records(JSON, QUESTIONS, TARGETS, f"127.0.0.1:{server.port}")
    return request_files.write_records(tmp_path / "requests", made)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("connections", [1, 3, 8])
def test_answers_come_back_in_the_order_of_the_requests(
    load: Generators, server: SmallServer, requests: Path, connections: int, chunked: bool
):
    server.chunked = chunked
    answers = load.check(False, server.port, requests, connections)
    assert request_files.first_wrong(JSON, QUESTIONS, answers) == ""


def test_a_check_tells_what_was_refused(load: Generators, server: SmallServer, requests: Path):
    server.refuses = {3.0, 4.0}
    with pytest.raises(RuntimeError, match=r"2 requests were refused and 0 lost.*status 429.*not today"):
        load.check(False, server.port, requests, 4)


def test_a_constant_rate_is_kept_and_refusals_are_no_successes(load: Generators, server: SmallServer, requests: Path):
    found = load.open(server.port, requests, 4, 1.0, 200.0)
    assert found.clean
    assert 120 <= found.requests <= 200
    server.refuses = {3.0}
    found = load.open(server.port, requests, 4, 1.0, 200.0)
    assert not found.clean
    assert found.non2xx >= 10


def test_a_stall_is_seen_by_all_who_would_have_asked_meanwhile(load: Generators, server: SmallServer, requests: Path):
    """Of 400 requests in two seconds a stall of half a second holds up about a hundred, though two were under way."""
    stall = threading.Timer(1.5, lambda: setattr(server, "stalls", 0.5))  # after the warm-up
    stall.start()
    found = load.open(server.port, requests, 2, 2.0, 200.0)
    stall.join()
    assert found.max_ms >= 450
    assert found.p90_ms >= 100


# --- what is made of it ------------------------------------------------------------------------------------------------------


def test_the_least_disturbed_try_counts_and_a_quiet_one_ends_it(monkeypatch: pytest.MonkeyPatch):
    others, failing = iter([0.9, 0.3, 0.6]), set[float]()
    clock = [0.0]
    monkeypatch.setattr(generators, "busy_seconds", lambda: clock[0])
    monkeypatch.setattr(generators, "children_seconds", lambda: 0.0)

    def load() -> Load:
        other = next(others)
        clock[0] += other * 3  # two seconds and the warm-up
        return Load(
            **{name: getattr(LOAD, name) for name in ("seconds", "p50_ms", "p90_ms", "p99_ms", "max_ms")}, **counts(other)
        )

    def counts(other: float) -> dict[str, int]:
        return {"requests": round(other * 1000), "errors": int(other in failing), "non2xx": 0}

    assert generators.least_disturbed(list, load).requests == 300
    others = iter([0.9, 0.1, 0.05])
    assert generators.least_disturbed(list, load).requests == 100
    failing, others = {0.1}, iter([0.1, 0.9, 0.6])
    assert generators.least_disturbed(list, load).requests == 600, "a quiet try with errors is no good"


def at(rate: float, p99: float = 3.0) -> Load:
    return Load(requests=int(rate), seconds=1.0, p50_ms=1.0, p90_ms=2.0, p99_ms=p99, max_ms=p99, errors=0, non2xx=0)


def test_ours_is_held_against_the_best_peer_of_each_protocol():
    peers = {"one": {"json": at(100), "grpc": at(400), "few": at(50, 8.0)}, "two": {"json": at(200), "few": at(50, 4.0)}}
    ours = {"json": at(1000), "binary": at(900), "grpc": at(800), "few": at(900, 1.0), "spread": at(500), "tls": at(600)}
    figures = serving.compare(ours, peers)
    assert (figures["tls_x"], figures["errors"]) == (0.6, 0)
    assert (figures["rest_json_x"], figures["grpc_x"], figures["spread_x"], figures["p99_x"]) == (5, 2, 2.5, 4)
    assert figures["rest_binary_rps"] == 900
    assert "rest_binary_x" not in figures, "there is nothing to hold it against"


def test_the_models_of_spread_endpoints_differ_and_are_still_the_model():
    made = serving.copies(b"model", 100)
    assert len(set(made)) == 100
    assert all(one.startswith(b"model\x32\x08copy ") for one in made)


@pytest.mark.parametrize("wrong", [("--peers", "nobody"), ("--only", "nothing")])
def test_what_it_does_not_know_is_named(wrong: tuple[str, str]):
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "serving.py"), *wrong], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("bench-serving: no such p")
    assert wrong[1] in done.stderr
