"""The clients that people have: tritonclient, and gRPC's own."""

import asyncio
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tests.serving.plane.grpc.peer import INFER
from tests.serving.plane.grpc.serving import Served

GOOD = {"authorization": "Bearer good"}


@pytest.fixture
def client(face: Served) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(face.address) as connected:
        yield connected


@pytest.fixture
def channel(face: Served) -> Iterator[grpc.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(face.address, options=options) as opened:
        yield opened


def tensor(array: np.ndarray, datatype: str = "FP32", name: str = "x", kind: Any = triton) -> Any:
    made = kind.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def request(array: np.ndarray, endpoint: str = "double") -> bytes:
    message = service_pb2.ModelInferRequest(model_name=endpoint, raw_input_contents=[array.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=array.shape)
    return message.SerializeToString()


def doubled(answer: bytes) -> np.ndarray:
    return np.frombuffer(service_pb2.ModelInferResponse.FromString(answer).raw_output_contents[0], np.float32)


def test_tritonclient_asks_for_health_and_metadata(client: triton.InferenceServerClient):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("double")
    assert not client.is_model_ready("double", "99")
    server = client.get_server_metadata()
    assert (server.name, server.version) == ("falaj", "1.2.3")
    model = client.get_model_metadata("double")
    assert model.versions == ["3"]
    assert model.inputs[0].datatype == "FP32"
    assert list(model.inputs[0].shape) == [-1, 32]
    with pytest.raises(InferenceServerException, match="no such endpoint"):
        client.get_model_metadata("missing")


def test_tritonclient_infers(client: triton.InferenceServerClient, face: Served):
    x = np.random.default_rng(1).random((3, 4), np.float32)
    result = client.infer("double", [tensor(x)], request_id="one", model_version="3", headers={**GOOD, "x-falaj-key": "ann"})
    assert np.array_equal(result.as_numpy("x_out"), x * 2)
    response = result.get_response()
    assert (response.id, response.model_name, response.model_version) == ("one", "double", "3")
    assert response.parameters["model"].string_param == "arithmetic"
    assert response.parameters["version"].int64_param == 7
    asked = face.core.seen
    assert asked is not None
    assert (asked.token, asked.key, asked.version, asked.id) == ("good", "ann", "3", "one")


DATATYPES = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
    "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


@pytest.mark.parametrize("datatype", DATATYPES)
def test_tritonclient_sends_and_gets_every_datatype(client: triton.InferenceServerClient, datatype: str):
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(DATATYPES[datatype])
    result = client.infer("echo", [tensor(x, datatype)])
    assert np.array_equal(result.as_numpy("x_out"), x)
    assert result.as_numpy("x_out").dtype == x.dtype


def test_tritonclient_sends_and_gets_text(client: triton.InferenceServerClient):
    x = np.array([["größe", ""], ["\0", "x" * 1000]], dtype=object)
    result = client.infer("double", [tensor(x, "BYTES")])
    assert [text.decode() for text in result.as_numpy("x_out").ravel()] == ["größe" * 2, "", "\0\0", "x" * 2000]


def test_tritonclient_sends_several_inputs_and_asks_for_outputs(client: triton.InferenceServerClient, face: Served):
    one, two = np.ones((2, 2), np.float32), np.arange(3, dtype=np.int64)
    wanted = [triton.InferRequestedOutput("b_out")]
    result = client.infer("double", [tensor(one, name="a"), tensor(two, "INT64", "b")], outputs=wanted)
    assert np.array_equal(result.as_numpy("b_out"), two * 2)
    assert face.core.seen is not None
    assert list(face.core.seen.wanted) == ["b_out"]


def test_tritonclient_manages_the_repository(client: triton.InferenceServerClient, face: Served):
    with pytest.raises(InferenceServerException, match="a token is needed"):
        client.get_model_repository_index()
    index = client.get_model_repository_index(headers=GOOD)
    assert [(model.name, model.state) for model in index.models] == [("double", "READY"), ("echo", "UNAVAILABLE")]
    client.load_model("echo", headers=GOOD)
    assert face.core.loaded == ["echo"]
    client.unload_model("echo", headers=GOOD)
    assert face.core.loaded == []
    with pytest.raises(InferenceServerException, match="may manage"):
        client.load_model("echo")
    with pytest.raises(InferenceServerException, match="no parameters or files"):
        client.load_model("echo", headers=GOOD, config="{}")


def test_tritonclient_is_told_what_is_not_offered(client: triton.InferenceServerClient):
    for ask in (client.get_model_config, client.get_inference_statistics):
        with pytest.raises(InferenceServerException, match="there is no method") as caught:
            ask("double")
        assert "UNIMPLEMENTED" in caught.value.status()
    classes = [triton.InferRequestedOutput("x_out", class_count=3)]
    with pytest.raises(InferenceServerException, match="classes"):
        client.infer("double", [tensor(np.ones(2, np.float32))], outputs=classes)
    shared = triton.InferInput("x", [2], "FP32")
    shared.set_shared_memory("region", 8)
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.infer("double", [shared])


def test_tritonclient_gets_errors_as_they_are(client: triton.InferenceServerClient):
    statuses = {
        "invalid": "INVALID_ARGUMENT", "unauthenticated": "UNAUTHENTICATED", "forbidden": "PERMISSION_DENIED",
        "missing": "NOT_FOUND", "conflict": "FAILED_PRECONDITION", "large": "RESOURCE_EXHAUSTED", "often": "RESOURCE_EXHAUSTED",
        "away": "UNAVAILABLE", "full": "UNAVAILABLE", "late": "DEADLINE_EXCEEDED", "broken": "INTERNAL",
    }  # fmt: skip
    for endpoint, status in statuses.items():
        with pytest.raises(InferenceServerException) as caught:
            client.infer(endpoint, [tensor(np.ones(2, np.float32))])
        assert caught.value.status() == f"StatusCode.{status}"
        assert "secret" not in caught.value.message()
    with pytest.raises(InferenceServerException) as caught:
        client.infer("odd", [tensor(np.ones(2, np.float32))])
    assert caught.value.message() == "100 % größer\nals erlaubt"


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_tritonclient_compresses(client: triton.InferenceServerClient, algorithm: str):
    x = np.zeros((100, 100), np.float32)
    result = client.infer("double", [tensor(x)], compression_algorithm=algorithm)
    assert np.array_equal(result.as_numpy("x_out"), x)


def test_tritonclient_asks_without_waiting(client: triton.InferenceServerClient):
    answers: queue.Queue[Any] = queue.Queue()
    for _ in range(50):
        client.async_infer("double", [tensor(np.ones(4, np.float32))], lambda result, error: answers.put((result, error)))
    for _ in range(50):
        result, error = answers.get(timeout=10)
        assert error is None
        assert result.as_numpy("x_out").tolist() == [2.0] * 4


def test_tritonclient_streams(client: triton.InferenceServerClient):
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers=GOOD)
    for number in range(200):
        client.async_stream_infer("double", [tensor(np.full(3, number, np.float32))], request_id=str(number))
    got = {}
    for _ in range(200):
        result, error = answers.get(timeout=10)
        assert error is None
        got[int(result.get_response().id)] = result.as_numpy("x_out")[0]
        assert result.get_response().parameters["triton_final_response"].bool_param
    assert got == {number: number * 2 for number in range(200)}
    client.stop_stream()


def test_in_a_stream_quick_answers_overtake_slow_ones_and_errors_stay_single(client: triton.InferenceServerClient):
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number, endpoint in enumerate(("slow", "missing", "double")):
        client.async_stream_infer(endpoint, [tensor(np.ones(1, np.float32))], request_id=str(number))
    first, second, third = [answers.get(timeout=10) for _ in range(3)]
    assert "no such endpoint" in first[1].message()
    assert second[0].get_response().id == "2"
    assert third[0].get_response().id == "0"
    client.stop_stream()


def test_a_cancelled_stream_lets_its_predictions_go(client: triton.InferenceServerClient, face: Served):
    client.start_stream(lambda result, error: None)
    client.async_stream_infer("never", [tensor(np.ones(1, np.float32))])
    wait_until(lambda: any(asked.reply.gone is False for asked in face.core.held))
    client.stop_stream(cancel_requests=True)
    wait_until(lambda: all(asked.reply.gone for asked in face.core.held))
    assert face.open_streams() == 0


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_tritonclient_aio_infers_and_streams(face: Served):
    async def ask() -> None:
        async with triton_aio.InferenceServerClient(face.address) as client:
            assert await client.is_server_live()
            x = np.ones((2, 2), np.float32)
            results = await asyncio.gather(*[client.infer("double", [tensor(x, kind=triton_aio)]) for _ in range(300)])
            assert all(np.array_equal(result.as_numpy("x_out"), x * 2) for result in results)

            async def requests() -> Any:
                for number in range(20):
                    yield {"model_name": "double", "inputs": [tensor(x * number, kind=triton_aio)], "request_id": str(number)}

            seen = 0
            async for result, error in client.stream_infer(requests()):
                assert error is None
                assert np.array_equal(result.as_numpy("x_out"), x * 2 * int(result.get_response().id))
                seen += 1
            assert seen == 20

    asyncio.run(ask())


def test_grpc_clients_have_a_thousand_calls_at_once(channel: grpc.Channel):
    infer = channel.unary_unary(INFER)
    x = np.arange(32, dtype=np.float32)
    calls = [infer.future(request(x + number)) for number in range(1000)]
    for number, call in enumerate(calls):
        assert np.array_equal(doubled(call.result(30)), (x + number) * 2)


@pytest.mark.parametrize("megabytes", [1, 30])
def test_grpc_clients_send_and_get_large_messages(channel: grpc.Channel, face: Served, megabytes: int):
    x = np.random.default_rng(megabytes).random(megabytes * 262_144, np.float32)
    infer = channel.unary_unary(INFER)
    assert np.array_equal(doubled(infer(request(x), timeout=60)), x * 2)
    assert face.held() == 0


def test_large_and_small_answers_share_a_connection(channel: grpc.Channel, face: Served):
    infer = channel.unary_unary(INFER)
    large = np.random.default_rng(1).random(2_000_000, np.float32)
    small = np.ones(4, np.float32)
    calls = [(infer.future(request(x)), x) for _ in range(5) for x in (large, small, small)]
    for call, x in calls:
        assert np.array_equal(doubled(call.result(60)), x * 2)
    assert face.held() == 0


def test_a_message_beyond_the_limit_is_refused(channel: grpc.Channel):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(INFER)(request(np.zeros(17 * 1024 * 1024, np.float32)), timeout=60)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "at most" in caught.value.details()


def test_a_deadline_reaches_the_core_and_holds(channel: grpc.Channel, face: Served):
    infer = channel.unary_unary(INFER)
    infer(request(np.ones(1, np.float32)), timeout=50)
    asked = face.core.seen
    assert asked is not None
    assert asked.deadline is not None
    assert 45 < asked.deadline - asked.arrived < 51
    with pytest.raises(grpc.RpcError) as caught:
        infer(request(np.ones(1, np.float32), "never"), timeout=0.2)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    asked = face.core.held[-1]
    wait_until(lambda: asked.reply.gone)


def test_a_cancelled_call_is_gone(channel: grpc.Channel, face: Served):
    before = len(face.core.held)
    call = channel.unary_unary(INFER).future(request(np.ones(1, np.float32), "never"))
    wait_until(lambda: len(face.core.held) > before)
    call.cancel()
    wait_until(lambda: face.core.held[-1].reply.gone)


def test_a_closed_channel_lets_everything_go(face: Served):
    with grpc.insecure_channel(face.address) as channel:
        before = len(face.core.held)
        call = channel.unary_unary(INFER).future(request(np.ones(1, np.float32), "never"))
        wait_until(lambda: len(face.core.held) > before)
        assert not call.done()
    wait_until(lambda: face.core.held[-1].reply.gone)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_grpc_clients_compress(face: Served, compression: grpc.Compression):
    with grpc.insecure_channel(face.address, compression=compression) as channel:
        x = np.random.default_rng(3).integers(0, 3, 100_000).astype(np.float32)
        assert np.array_equal(doubled(channel.unary_unary(INFER)(request(x), timeout=30)), x * 2)


def test_errors_that_pass_say_when_to_try_again(channel: grpc.Channel):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(INFER)(request(np.ones(1, np.float32), "often"))
    trailers = dict(caught.value.trailing_metadata())
    assert trailers["retry-after"] == "3"


def test_the_health_checking_protocol_is_answered(channel: grpc.Channel, face: Served):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"") == b"\x08\x01"
    face.core.ready = False
    try:
        assert check(b"") == b"\x08\x02"
    finally:
        face.core.ready = True
    with pytest.raises(grpc.RpcError) as caught:
        check(b"\x0a\x07unknown")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_many_channels_at_once_get_their_own_answers(face: Served):
    def one(number: int) -> bool:
        with grpc.insecure_channel(face.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            infer = channel.unary_unary(INFER)
            x = np.full(8, number, np.float32)
            return all(np.array_equal(doubled(infer(request(x), timeout=30)), x * 2) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(40)))


def test_a_drain_under_load_fails_no_call(face: Served):
    """Clients that are sent away come back on a new connection by themselves."""
    stop = threading.Event()
    failures: list[Exception] = []
    done = [0]

    def load() -> None:
        with grpc.insecure_channel(face.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            infer = channel.unary_unary(INFER)
            while not stop.is_set():
                calls = [infer.future(request(np.ones(4, np.float32)), timeout=20) for _ in range(20)]
                for call in calls:
                    try:
                        call.result()
                        done[0] += 1
                    except grpc.RpcError as error:
                        failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        time.sleep(0.15)
        face.do(lambda: [connection.drain() for connection in list(face.shared.connections)])
    wait_until(lambda: done[0] > 100)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
