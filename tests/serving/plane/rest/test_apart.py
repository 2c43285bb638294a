"""Large JSON, read in a process apart while everybody else goes on; and large answers, written slice by slice."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import FalajError, Invalid, TooLarge
from falaj.serving.plane.asking import TEXTS_MOST, Answer, Described
from falaj.serving.plane.rest import codec, records
from falaj.serving.plane.rest.apart import AT_ONCE
from falaj.serving.plane.rest.codec import SLICE, Asked, Writer, read_infer, slices_of
from falaj.serving.plane.rest.limits import Limits
from falaj.serving.plane.rest.predictions import Predictions, is_large
from falaj.serving.plane.rest.reading import Job, asked_of, read
from falaj.serving.plane.rest.records import read_records, slices_of_predictions, write_predictions
from tests.serving.plane.rest.arithmetic import MODELS, Arithmetic, Server, to_array
from tests.serving.plane.rest.test_codec import tensors
from tests.serving.plane.rest.wires import Wire, post, sum_request, wait_until

INFER, PREDICT = "/v2/models/sum/infer", "/v2/endpoints/sum/predict"
MOST = 1 << 20
LARGE = [[1, 2, 3]] * (AT_ONCE // 6)
SMALL = sum_request([1, 2, 3])


def by_name(asked: Asked) -> dict[str, Any]:
    return {one.name: (one.datatype, tuple(one.shape), to_array(one).tolist()) for one in asked.given}


def outcome(body: bytes, described: Described | None) -> Any:
    """Where it is read by the worker itself, and where it is read apart."""

    def at_once() -> Asked:
        return read_infer(body, -1, MOST) if described is None else Asked(read_records(body, described, MOST), "")

    def apart() -> Asked:
        told, packed = read(Job(most=MOST, described=described), body)
        return asked_of(told, b"".join(packed))

    found = []
    for way in (at_once, apart):
        try:
            asked = way()
            found.append((repr(by_name(asked)), asked.id, list(asked.wanted), asked.binary, asked.all_binary, asked.patience))
        except FalajError as error:
            found.append((type(error), str(error)))
    return found


@given(st.lists(tensors(), min_size=1, max_size=3), st.booleans(), st.integers(0, 2**40))
def test_tensors_that_are_read_apart_are_the_same(given: list[Any], binary: bool, timeout: int) -> None:
    inputs = [
        {"name": f"x{place}", "datatype": datatype, "shape": shape, "data": flat}
        for place, (datatype, shape, flat) in enumerate(given)
    ]
    said = {
        "inputs": inputs,
        "id": "7",
        "outputs": [{"name": "y", "parameters": {"binary_data": binary}}],
        "parameters": {"timeout": timeout},
    }
    at_once, apart = outcome(json.dumps(said).encode(), None)
    assert at_once == apart


@given(
    st.sampled_from(["sum", "columns"]), st.binary(max_size=40) | st.text(alphabet='{}[]",:1e.ncsoedrwagityzh ').map(str.encode)
)
def test_whatever_is_sent_reads_apart_as_it_does_at_once(model: str, body: bytes) -> None:
    for described in (None, MODELS[model]):
        at_once, apart = outcome(body, described)
        assert at_once == apart


@pytest.mark.parametrize("number", ["1e39", "-1e39", "1e400"])
def test_a_number_that_the_datatype_cannot_hold_is_named(number: str) -> None:
    body = f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[2],"data":[1,{number}]}}]}}'.encode()
    with pytest.raises(Invalid, match=r"large|hold|range"):
        asked_of(*read(Job(most=MOST), body))  # type: ignore[arg-type]


def test_more_texts_than_everybody_should_wait_for_are_too_many() -> None:
    count = TEXTS_MOST + 1
    said = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [count], "data": [""] * count}]}
    told, _ = read(Job(most=MOST), json.dumps(said).encode())
    assert told.too_large
    head = json.dumps(
        {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [count], "parameters": {"binary_data_size": 4 * count}}]}
    )
    with pytest.raises(TooLarge, match="BYTES"):
        read_infer(head.encode() + bytes(4 * count), len(head), MOST)


@given(st.integers(0, 50), st.integers(1, 3), st.integers(1, 9), st.booleans())
def test_an_answer_in_slices_is_the_same(rows: int, width: int, size: int, two: bool) -> None:
    wide = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    wide[wide == 3] = np.nan
    outputs = [("y", "FP32", wide), ("label", "BYTES", np.array([b"%d" % one for one in range(rows)], dtype=np.object_))]
    names, datatypes, arrays = zip(*outputs[: 1 + two], strict=True)
    answer = Answer("e", 1, 2, "", names, datatypes, arrays)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(codec, "SLICE", size)
        patched.setattr(records, "SLICE", size)
        sliced = b"".join(slices_of_predictions(answer))
        datas = {name: b"[%b]" % b",".join(slices_of(array, kind, name)) for name, kind, array in outputs[: 1 + two]}
    assert json.loads(sliced) == json.loads(write_predictions(answer))
    assert Writer().write(answer, Asked([], ""), datas) == Writer().write(answer, Asked([], ""))


# On a server


def rows_of(count: int) -> bytes:
    return json.dumps({"rows": [[1, 2, 3]] * count}).encode()


@contextmanager
def held(server: Server) -> Iterator[psutil.Process]:
    """The reading process, which does not go on before the end of this."""
    with Wire(server) as wire:
        wire.send(post(PREDICT, rows_of(20_000)))
        assert wire.reply().status == 200
    process = psutil.Process(server.call(lambda: server.apart._process._process.pid))
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


def is_silent(wire: Wire) -> bool:
    wire.socket.setblocking(False)
    try:
        wire.socket.recv(1)
    except BlockingIOError:
        return True
    finally:
        wire.socket.settimeout(10)
    return False


@pytest.mark.parametrize(("path", "body"), [(PREDICT, rows_of(40_000)), (INFER, sum_request(*LARGE))])
def test_nobody_waits_while_a_large_request_is_read(server: Server, path: str, body: bytes) -> None:
    with Wire(server) as large, Wire(server) as small:
        with held(server):
            large.send(post(path, body))
            for _ in range(50):
                small.send(post(INFER, SMALL))
                assert small.reply().said["outputs"][0]["data"] == [6.0]
            assert is_silent(large)
        reply = large.reply()
        said = reply.said
        found = said["predictions"] if path == PREDICT else said["outputs"][0]["data"]
        assert (reply.status, set(found)) == (200, {6.0})
        assert len(found) == (40_000 if path == PREDICT else len(LARGE))


def test_others_have_their_turns_between_the_slices_of_a_large_answer() -> None:
    count, turns = 20 * SLICE, 0
    answer = Answer("sum", 1, 1, "", ("sum",), ("FP32",), [np.ones((count, 1), np.float32)])

    async def play() -> list[bytes]:
        nonlocal turns
        predictions, written = Predictions(Arithmetic(), Limits()), []
        for plain in (False, True):
            assert is_large(answer, Asked([], ""), plain)
            writing = asyncio.ensure_future(predictions.write_large(answer, Asked([], ""), plain, lambda: True))
            while not writing.done():
                await asyncio.sleep(0)
                turns += 1
            written.append(b"".join(writing.result().parts))
        return written

    tensors, rows = asyncio.run(play())
    assert turns >= 2 * 20
    assert json.loads(tensors)["outputs"][0]["data"] == json.loads(rows)["predictions"] == [1.0] * count


def test_projects_take_turns_with_large_requests(core: Arithmetic, server: Server) -> None:
    with ExitStack() as stack, Wire(server) as other:
        flood = [stack.enter_context(Wire(server)) for _ in range(6)]
        with held(server):
            before = len(core.asks)
            for one in flood:
                one.send(post(PREDICT, rows_of(30_000)))
            wait_until(lambda: server.apart._shares.of("alpha").taken >= 6 * len(rows_of(30_000)))
            other.send(post(PREDICT, rows_of(30_000), token="beta"))
            wait_until(lambda: server.apart._shares.of("beta").taken)
        assert other.reply().status == 200
        assert all(one.reply().status == 200 for one in flood)
    assert [ask.token for ask in core.asks[before:]].index("beta") <= 2


def test_who_gave_up_is_not_read(core: Arithmetic, server: Server) -> None:
    with Wire(server) as first, Wire(server) as last, Wire(server) as gone:
        with held(server):
            before = len(core.asks)
            for wire in (first, gone, last):
                wire.send(post(PREDICT, rows_of(30_000)))
            wait_until(lambda: server.apart._shares.taken >= 3 * len(rows_of(30_000)))
            gone.socket.close()
            wait_until(lambda: server.call(lambda: server.edge.connections) == 2)
        assert (first.reply().status, last.reply().status) == (200, 200)
    assert len(core.asks) == before + 2
    assert server.apart._shares.taken == 0


def test_when_the_process_dies_who_waits_is_told_and_the_next_is_read(server: Server) -> None:
    with Wire(server) as wire, Wire(server) as next_one:
        with held(server) as process:
            wire.send(post(PREDICT, rows_of(30_000)))
            wait_until(lambda: server.apart._shares.taken)
            os.kill(process.pid, signal.SIGKILL)
            reply = wire.reply()
        assert (reply.status, "retry-after" in reply.fields) == (503, True)
        next_one.send(post(PREDICT, rows_of(30_000)))
        assert next_one.reply().status == 200


def test_the_process_stays_for_the_next_request_however_large_its_worker_is(server: Server) -> None:
    ballast = bytes(300 << 20)
    with Wire(server) as wire:
        readers = set()
        for _ in range(2):
            wire.send(post(PREDICT, rows_of(20_000)))
            assert wire.reply().status == 200
            readers.add(server.call(lambda: server.apart._process._process.pid))
    assert (len(readers), len(ballast)) == (1, 300 << 20)


def test_what_is_wrong_with_a_large_request_is_said_as_of_a_small_one(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(post(PREDICT, b'{"records":[{"age":1}' + b" " * AT_ONCE + b"]}"))
        reply = wire.reply()
        assert (reply.status, "lacks 'height'" in reply.said["error"]) == (400, True)
        wire.send(post(INFER, b"[" * (AT_ONCE + 1)))
        assert wire.reply().status == 400
        wire.send(post("/v2/models/none/infer", SMALL + b" " * AT_ONCE))
        assert wire.reply().status == 404
