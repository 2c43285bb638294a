"""NVIDIA's own client, unchanged, over every datatype and form."""

import asyncio
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests.serving.plane.rest.arithmetic import NUMPY, Arithmetic, Server

SAMPLES: dict[str, np.ndarray[Any, Any]] = {
    **{
        name: np.array([[0, 1, np.iinfo(dtype).max], [np.iinfo(dtype).min, 2, 3]], dtype=dtype)
        for name, dtype in NUMPY.items()
        if "INT" in name
    },
    **{name: np.array([[0.5, -1.25], [3e4, -0.0]], dtype=NUMPY[name]) for name in ("FP16", "FP32", "FP64")},
    "BOOL": np.array([True, False, True]),
    "BYTES": np.array([["grüß".encode(), b""], [b"a", b"\n\"'"]], dtype=np.object_),
}


def bearer() -> dict[str, str]:
    """A new one each time: the client adds its own lines to what it is given."""
    return {"authorization": "Bearer good"}


@pytest.fixture
def client(server: Server) -> Any:
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as made:
        yield made


def tensor(name: str, array: np.ndarray[Any, Any], datatype: str = "", binary: bool = True) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), datatype or np_to_triton_dtype(array.dtype))
    return made.set_data_from_numpy(array, binary_data=binary)


@pytest.mark.parametrize("datatype", SAMPLES)
@pytest.mark.parametrize("sent_binary", [True, False])
@pytest.mark.parametrize("wanted_binary", [True, False])
def test_every_datatype_comes_back_as_it_was_sent(client: Any, datatype: str, sent_binary: bool, wanted_binary: bool) -> None:
    array = SAMPLES[datatype]
    outputs = [triton.InferRequestedOutput("x_out", binary_data=wanted_binary)]
    result = client.infer("echo", [tensor("x", array, datatype, sent_binary)], outputs=outputs, headers=bearer())
    back = result.as_numpy("x_out")
    assert back.shape == array.shape
    if datatype == "BYTES" and not wanted_binary:
        array = np.array([one.decode() for one in array.reshape(-1)], dtype=np.object_).reshape(array.shape)
    assert np.array_equal(back, array)
    assert result.get_output("x_out")["datatype"] == datatype


def test_bf16_travels_in_binary(client: Any) -> None:
    array = np.array([1.5, -2.25, 3e38], dtype=ml_dtypes.bfloat16)
    result = client.infer("echo", [tensor("x", array, "BF16")], headers=bearer())
    assert np.array_equal(result.as_numpy("x_out"), array)


def test_several_inputs_and_outputs_mix_json_and_binary(client: Any) -> None:
    inputs = [tensor(name, SAMPLES[name], name, binary) for name, binary in (("FP32", True), ("INT8", False), ("BYTES", True))]
    outputs = [triton.InferRequestedOutput("BYTES_out", binary_data=False), triton.InferRequestedOutput("FP32_out")]
    result = client.infer("echo", inputs, outputs=outputs, headers=bearer())
    assert np.array_equal(result.as_numpy("FP32_out"), SAMPLES["FP32"])
    assert result.as_numpy("BYTES_out").reshape(-1).tolist() == [one.decode() for one in SAMPLES["BYTES"].reshape(-1)]
    assert result.as_numpy("INT8_out") is None


@pytest.mark.parametrize("sent", [None, "gzip", "deflate"])
@pytest.mark.parametrize("wanted", [None, "gzip", "deflate"])
@pytest.mark.parametrize("rows", [1, 3_000, 200_000])
def test_compression_works_both_ways(client: Any, sent: str | None, wanted: str | None, rows: int) -> None:
    array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    result = client.infer(
        "echo",
        [tensor("x", array)],
        headers=bearer(),
        request_compression_algorithm=sent,
        response_compression_algorithm=wanted,
    )
    assert np.array_equal(result.as_numpy("x_out"), array)


def test_numbers_that_are_not_finite_survive_json(client: Any) -> None:
    array = np.array([np.nan, np.inf, -np.inf, 1.0], dtype=np.float32)
    outputs = [triton.InferRequestedOutput("x_out", binary_data=False)]
    result = client.infer("echo", [tensor("x", array, binary=False)], outputs=outputs, headers=bearer())
    assert np.array_equal(result.as_numpy("x_out"), array, equal_nan=True)
    assert result.get_output("x_out")["data"] == ["NaN", "Infinity", "-Infinity", 1.0]


def test_an_answer_names_request_revision_and_version(client: Any) -> None:
    said = client.infer(
        "echo", [tensor("x", SAMPLES["FP32"])], request_id="r-1", model_version="2", headers=bearer()
    ).get_response()
    assert (said["id"], said["model_name"], said["model_version"]) == ("r-1", "echo", "2")
    assert said["parameters"] == {"model": "adder", "version": 7}


def test_parameters_are_taken_and_the_timeout_becomes_a_deadline(client: Any, core: Arithmetic) -> None:
    client.infer(
        "echo", [tensor("x", SAMPLES["FP32"])], headers=bearer(), timeout=2_000_000, priority=1, parameters={"mine": "1"}
    )
    [ask] = core.asks
    assert ask.deadline is not None
    assert abs(ask.deadline - ask.arrived - 2) < 0.001


def test_an_empty_tensor_comes_back(client: Any) -> None:
    array = np.empty((0, 3), dtype=np.float32)
    assert client.infer("echo", [tensor("x", array)], headers=bearer()).as_numpy("x_out").shape == (0, 3)


@pytest.mark.parametrize(
    ("model", "token", "status"), [("none", "good", "404"), ("echo", "bad", "401"), ("echo", "elsewhere", "403")]
)
def test_errors_come_as_the_client_reads_them(client: Any, model: str, token: str, status: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, [tensor("x", SAMPLES["FP32"])], headers={"authorization": f"Bearer {token}"})
    assert caught.value.status() == status
    assert caught.value.message()


def test_health_and_metadata(client: Any, core: Arithmetic) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("sum", headers=bearer())
    assert client.is_model_ready("sum", "1", headers=bearer())
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.get_model_metadata("sum", headers=bearer()) == {
        "name": "sum",
        "versions": ["1"],
        "platform": "numpy",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [{"name": "sum", "datatype": "FP32", "shape": [-1, 1]}],
    }
    core.ready = False
    assert not client.is_server_ready()
    assert not client.is_model_ready("sum", headers=bearer())


def test_the_repository_can_be_listed_loaded_and_unloaded(client: Any, core: Arithmetic) -> None:
    assert [one["state"] for one in client.get_model_repository_index(headers=bearer())] == ["READY", "UNAVAILABLE"]
    client.load_model("sum", headers=bearer())
    assert core.loaded == ["sum"]
    client.unload_model("sum", headers=bearer())
    assert core.loaded == []
    with pytest.raises(InferenceServerException, match="as it was deployed"):
        client.load_model("sum", headers=bearer(), config="{}")
    with pytest.raises(InferenceServerException, match="no token"):
        client.load_model("sum")


def test_the_asynchronous_calls_of_the_client_work(server: Server) -> None:
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=8) as client:
        arrays = [np.full((2, 3), number, dtype=np.float32) for number in range(20)]
        under_way = [client.async_infer("echo", [tensor("x", array)], headers=bearer()) for array in arrays]
        for array, one in zip(arrays, under_way, strict=True):
            assert np.array_equal(one.get_result().as_numpy("x_out"), array)


def test_the_aio_client_works(server: Server) -> None:
    async def talk() -> None:
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            assert await client.is_server_live()
            assert (await client.get_model_metadata("sum", headers=bearer()))["name"] == "sum"
            arrays = [np.full((2, 3), number, dtype=np.float32) for number in range(20)]
            results = await asyncio.gather(
                *(
                    client.infer("echo", [tensor("x", array)], headers=bearer(), request_id=str(number))
                    for number, array in enumerate(arrays)
                )
            )
            for number, (array, result) in enumerate(zip(arrays, results, strict=True)):
                assert np.array_equal(result.as_numpy("x_out"), array)
                assert result.get_response()["id"] == str(number)
            large = np.random.default_rng(1).random((1000, 200), dtype=np.float32)
            packed = await client.infer(
                "echo",
                [tensor("x", large)],
                headers=bearer(),
                request_compression_algorithm="gzip",
                response_compression_algorithm="gzip",
            )
            assert np.array_equal(packed.as_numpy("x_out"), large)
            with pytest.raises(InferenceServerException):
                await client.infer("none", [tensor("x", arrays[0])], headers=bearer())

    asyncio.run(talk())
