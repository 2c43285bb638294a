"""What a server of the Open Inference Protocol (v2; Triton and KServe speak it) promises, a sentence a case, over both faces.

Inherit and provide the fixture `served`. `docs/inference-protocol.md` lists the cases.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from falaj.base.values import value
from falaj.testing.inference_faces import (
    CONTENTS,
    DTYPES,
    Array,
    Asked,
    Face,
    Grpc,
    Kind,
    Refused,
    Rest,
    Tensor,
    read_answer,
)

SAMPLES: Final[dict[str, Array]] = {
    **{
        name: np.array([[0, 1], [np.iinfo(dtype).min, np.iinfo(dtype).max]], dtype)
        for name, dtype in DTYPES.items()
        if "INT" in name
    },
    **{name: np.array([[0.5, -0.0], [np.finfo(DTYPES[name]).max, -1.25]], DTYPES[name]) for name in ("FP16", "FP32", "FP64")},
    "BOOL": np.array([[True, False], [False, True]]),
    "BYTES": np.array([["grüß".encode(), b""], [b"\0a", b"\n\"'"]], np.object_),
}
A: Final = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B: Final = np.array([[10, 20, 30], [40, 50, 60]], np.float32)
WORDS: Final = np.array([[b"first"], [b"second"]], np.object_)
MIXED: Final = "mixed"
NOBODY: Final = "nobody"
FACES: Final[dict[str, type[Rest] | type[Grpc]]] = {"REST": Rest, "gRPC": Grpc}
_FORMS: Final = ((face, binary) for face in FACES for binary in (False, True))
# gRPC has no typed contents for FP16: see the case of its own.
_EVERY: Final = [
    pytest.param(face, datatype, binary, id=f"{face}-{datatype}-{'binary' if binary else 'plain'}")
    for face, binary in _FORMS
    for datatype in SAMPLES
    if not (face == "gRPC" and datatype not in CONTENTS and not binary)
]
both_forms = pytest.mark.parametrize("binary", [False, True], ids=["plain", "binary"])


@value
class Served:
    """A server on one port. `token` may call and manage these models, and `narrow` may call the first alone and manage none:

    - `of-fp32`, `of-int64` and so on, one for each datatype: x, [-1, 2] -> y, the same
    - `mixed`, versions 1 and 2, of which 2 answers: a and b, FP32 [-1, 3], and word, BYTES [-1, 1] -> sum, difference, word_out
    """

    url: str
    token: str
    narrow: str


def of(datatype: str) -> str:
    return f"of-{datatype.lower()}"


def mixed(**more: Any) -> Asked:
    inputs = (Tensor.of("a", "FP32", A), Tensor.of("b", "FP32", B), Tensor.of("word", "BYTES", WORDS))
    return Asked(**({"model": MIXED, "inputs": inputs} | more))


def with_a(**changed: Any) -> Asked:
    """The mixed request, but for its first tensor."""
    asked = mixed()
    fields = {"name": "a", "datatype": "FP32", "shape": A.shape, "data": A} | changed
    return mixed(inputs=(Tensor(**fields), *asked.inputs[1:]))


@contextmanager
def refused(kind: Kind) -> Iterator[None]:
    """In the face's own form of that error, with words."""
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.kind == kind, caught.value
    assert caught.value.said


class InferenceConformance:
    """The cases of both faces."""

    @pytest.fixture
    def served(self) -> Served:
        raise NotImplementedError("provide the server under test")

    @pytest.fixture(params=FACES)
    def face(self, request: pytest.FixtureRequest, served: Served) -> Iterator[Face]:
        with FACES[request.param](served.url, served.token) as face:
            yield face

    @pytest.fixture
    def stranger(self, face: Face, served: Served) -> Iterator[Face]:
        """The same face, without a token."""
        with type(face)(served.url) as stranger:
            yield stranger

    @pytest.fixture
    def narrow(self, face: Face, served: Served) -> Iterator[Face]:
        with type(face)(served.url, served.narrow) as narrow:
            yield narrow

    # The server

    def test_a_server_that_runs_is_live(self, stranger: Face) -> None:
        assert stranger.health("live")

    def test_a_server_that_can_answer_is_ready(self, stranger: Face) -> None:
        assert stranger.health("ready")

    def test_a_server_says_its_name_and_version_and_extensions(self, stranger: Face) -> None:
        said = stranger.server()
        assert said.name
        assert said.version
        assert "model_repository" in said.extensions

    # Models

    def test_a_model_that_can_answer_is_ready(self, face: Face) -> None:
        assert face.is_ready(MIXED)

    @pytest.mark.parametrize("version", ["1", "2"])
    def test_each_version_of_a_model_is_ready(self, face: Face, version: str) -> None:
        assert face.is_ready(MIXED, version)

    @pytest.mark.parametrize(("model", "version"), [(NOBODY, ""), (MIXED, "99")])
    def test_whether_an_unknown_model_or_version_is_ready_is_an_error(self, face: Face, model: str, version: str) -> None:
        with refused("missing"):
            face.is_ready(model, version)

    @pytest.mark.parametrize("version", ["", "1", "2"])
    def test_a_model_is_described_by_its_versions_and_platform_and_by_its_tensors(self, face: Face, version: str) -> None:
        said = face.described(MIXED, version)
        assert (said.name, said.versions) == (MIXED, ("1", "2"))
        assert said.platform
        assert said.inputs == {"a": ("FP32", (-1, 3)), "b": ("FP32", (-1, 3)), "word": ("BYTES", (-1, 1))}
        assert said.outputs == {"sum": ("FP32", (-1, 3)), "difference": ("FP32", (-1, 3)), "word_out": ("BYTES", (-1, 1))}

    @pytest.mark.parametrize(("model", "version"), [(NOBODY, ""), (MIXED, "99")])
    def test_an_unknown_model_or_version_cannot_be_described(self, face: Face, model: str, version: str) -> None:
        with refused("missing"):
            face.described(model, version)

    # Inference

    @pytest.mark.parametrize(("face", "datatype", "binary"), _EVERY, indirect=["face"])
    def test_a_tensor_of_every_datatype_comes_back_as_it_was_sent(self, face: Face, datatype: str, binary: bool) -> None:
        sent = Tensor.of("x", datatype, SAMPLES[datatype])
        answer = face.infer(Asked(model=of(datatype), inputs=(sent,), binary=binary))
        assert answer.datatypes == {"y": datatype}
        assert answer.outputs["y"].dtype == DTYPES[datatype]
        np.testing.assert_array_equal(answer.outputs["y"], sent.data)

    @both_forms
    def test_several_inputs_of_different_datatypes_give_several_outputs(self, face: Face, binary: bool) -> None:
        answer = face.infer(mixed(binary=binary))
        assert answer.datatypes == {"sum": "FP32", "difference": "FP32", "word_out": "BYTES"}
        np.testing.assert_array_equal(answer.outputs["sum"], A + B)
        np.testing.assert_array_equal(answer.outputs["difference"], A - B)
        np.testing.assert_array_equal(answer.outputs["word_out"], WORDS)

    @both_forms
    def test_inputs_are_known_by_name_and_not_by_their_order(self, face: Face, binary: bool) -> None:
        answer = face.infer(mixed(inputs=mixed().inputs[::-1], binary=binary))
        np.testing.assert_array_equal(answer.outputs["difference"], A - B)

    @both_forms
    @pytest.mark.parametrize("rows", [1, 7, 1000])
    def test_the_first_axis_takes_any_number_of_rows(self, face: Face, rows: int, binary: bool) -> None:
        sent = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        answer = face.infer(Asked(model=of("FP32"), inputs=(Tensor.of("x", "FP32", sent),), binary=binary))
        np.testing.assert_array_equal(answer.outputs["y"], sent)

    def test_an_answer_has_the_id_of_its_request(self, face: Face) -> None:
        assert face.infer(mixed(id="request-7 ü")).id == "request-7 ü"

    def test_an_answer_to_a_request_without_an_id_has_none(self, face: Face) -> None:
        assert face.infer(mixed()).id == ""

    def test_an_answer_names_the_model_and_the_version_that_the_server_chose(self, face: Face) -> None:
        answer = face.infer(mixed())
        assert (answer.model, answer.version) == (MIXED, "2")

    @pytest.mark.parametrize("version", ["1", "2"])
    def test_a_version_that_is_asked_for_answers(self, face: Face, version: str) -> None:
        assert face.infer(mixed(version=version)).version == version

    @both_forms
    def test_only_the_outputs_that_are_asked_for_come(self, face: Face, binary: bool) -> None:
        answer = face.infer(mixed(outputs=("word_out", "sum"), binary=binary))
        assert answer.outputs.keys() == {"word_out", "sum"}
        np.testing.assert_array_equal(answer.outputs["sum"], A + B)

    @both_forms
    def test_parameters_that_the_server_does_not_know_do_no_harm(self, face: Face, binary: bool) -> None:
        parameters = {"a_text": "x", "a_number": 7, "a_switch": True}
        asked = mixed(parameters=parameters, tensor_parameters=parameters, outputs=("sum",), binary=binary)
        np.testing.assert_array_equal(face.infer(asked).outputs["sum"], A + B)

    # Errors

    @pytest.mark.parametrize(("model", "version"), [(NOBODY, ""), (MIXED, "99"), (MIXED, "none")])
    def test_an_unknown_model_or_version_is_not_found(self, face: Face, model: str, version: str) -> None:
        with refused("missing"):
            face.infer(mixed(model=model, version=version))

    @both_forms
    def test_an_input_that_is_missing_is_an_error(self, face: Face, binary: bool) -> None:
        with refused("invalid"):
            face.infer(mixed(inputs=mixed().inputs[1:], binary=binary))

    @both_forms
    def test_an_input_that_the_model_does_not_have_is_an_error(self, face: Face, binary: bool) -> None:
        with refused("invalid"):
            face.infer(mixed(inputs=(*mixed().inputs, Tensor.of("c", "FP32", A)), binary=binary))

    @both_forms
    def test_an_input_that_is_given_twice_is_an_error(self, face: Face, binary: bool) -> None:
        with refused("invalid"):
            face.infer(mixed(inputs=(*mixed().inputs, mixed().inputs[0]), binary=binary))

    def test_a_request_without_inputs_is_an_error(self, face: Face) -> None:
        with refused("invalid"):
            face.infer(mixed(inputs=()))

    @pytest.mark.parametrize("datatype", ["FP64", "INT32", "BYTES", "FLOAT", "fp32", ""])
    def test_a_datatype_that_the_model_does_not_take_is_an_error(self, face: Face, datatype: str) -> None:
        data = A.astype(DTYPES.get(datatype, np.float32)) if datatype != "BYTES" else WORDS.repeat(3, axis=1)
        with refused("invalid"):
            face.infer(with_a(datatype=datatype, data=data))

    @pytest.mark.parametrize("shape", [(2, 4), (6,), (1, 2, 3), (2, -3), (-1, 3), (2, 2**60), ()])
    def test_a_shape_that_the_model_does_not_take_is_an_error(self, face: Face, shape: tuple[int, ...]) -> None:
        with refused("invalid"):
            face.infer(with_a(shape=shape))

    @both_forms
    @pytest.mark.parametrize("data", [A[:1], np.concatenate([A, A]), A[:0]], ids=["fewer", "more", "none"])
    def test_more_or_fewer_elements_than_the_shape_says_are_an_error(self, face: Face, data: Array, binary: bool) -> None:
        asked = with_a(data=data)
        with refused("invalid"):
            face.infer(mixed(inputs=asked.inputs, binary=binary))

    def test_an_output_that_the_model_does_not_have_is_an_error(self, face: Face) -> None:
        with refused("invalid"):
            face.infer(mixed(outputs=("sum", "product")))

    def test_who_shows_no_token_gets_no_answer(self, stranger: Face) -> None:
        with refused("unauthenticated"):
            stranger.infer(mixed())

    def test_a_token_for_another_model_gets_no_answer(self, narrow: Face) -> None:
        with refused("forbidden"):
            narrow.infer(mixed())

    # The repository

    def test_the_repository_lists_every_version_of_every_model(self, face: Face) -> None:
        assert {(MIXED, "1", "READY"), (MIXED, "2", "READY"), (of("FP16"), "1", "READY")} <= set(face.index())

    def test_a_model_that_is_unloaded_is_not_ready_until_it_is_loaded_again(self, face: Face) -> None:
        model = of("UINT8")
        face.manage("unload", model)
        assert not face.is_ready(model)
        assert (model, "1", "UNAVAILABLE") in face.index()
        assert model not in {name for name, _, _ in face.index(ready=True)}
        face.manage("load", model)
        assert face.is_ready(model)
        assert (model, "1", "READY") in face.index(ready=True)

    @pytest.mark.parametrize("verb", ["load", "unload"])
    def test_an_unknown_model_is_neither_loaded_nor_unloaded(self, face: Face, verb: Literal["load", "unload"]) -> None:
        with refused("missing"):
            face.manage(verb, NOBODY)

    @pytest.mark.parametrize("verb", ["load", "unload"])
    def test_loading_and_unloading_want_permission(self, narrow: Face, verb: Literal["load", "unload"]) -> None:
        with refused("forbidden"):
            narrow.manage(verb, of("FP32"))


class RestConformance:
    """What REST alone can say: JSON, and binary tensors after it."""

    @pytest.fixture
    def served(self) -> Served:
        raise NotImplementedError("provide the server under test")

    @pytest.fixture
    def rest(self, served: Served) -> Iterator[Rest]:
        with Rest(served.url, served.token) as face:
            yield face

    def test_the_binary_extension_is_named(self, rest: Rest) -> None:
        assert "binary_tensor_data" in rest.server().extensions

    def test_data_may_be_nested_by_its_shape(self, rest: Rest) -> None:
        for data in ([[1, 2], [3, 4]], [1, 2, 3, 4]):
            document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": data}]}
            assert read_answer(rest.post(f"/v2/models/{of('FP32')}", document)).outputs["y"].tolist() == [[1, 2], [3, 4]]

    def test_an_answer_in_json_is_json_and_has_flat_data(self, rest: Rest) -> None:
        document = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [2, 2], "data": [1, 2, 3, 4]}]}
        response = rest.post(f"/v2/models/{of('INT64')}", document)
        assert response.headers["content-type"] == "application/json"
        [output] = response.json()["outputs"]
        assert {name: output[name] for name in ("name", "datatype", "shape", "data")} == {
            "name": "y",
            "datatype": "INT64",
            "shape": [2, 2],
            "data": [1, 2, 3, 4],
        }

    def test_inputs_in_json_and_in_binary_may_be_mixed(self, rest: Rest) -> None:
        inputs = [
            {"name": "a", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": A.nbytes}},
            {"name": "b", "datatype": "FP32", "shape": [2, 3], "data": B.tolist()},
            {"name": "word", "datatype": "BYTES", "shape": [2, 1], "parameters": {"binary_data_size": 19}},
        ]
        answer = read_answer(
            rest.post(f"/v2/models/{MIXED}", {"inputs": inputs}, A.tobytes(), Tensor.of("w", "BYTES", WORDS).raw())
        )
        np.testing.assert_array_equal(answer.outputs["sum"], A + B)
        np.testing.assert_array_equal(answer.outputs["word_out"], WORDS)

    def test_each_output_may_be_asked_for_in_binary(self, rest: Rest) -> None:
        wishes = [{"name": "sum", "parameters": {"binary_data": True}}, {"name": "difference"}]
        assert self._in_binary(rest, {"outputs": wishes}) == {"sum"}

    def test_all_outputs_may_be_asked_for_in_binary(self, rest: Rest) -> None:
        assert self._in_binary(rest, {"parameters": {"binary_data_output": True}}) == {"sum", "difference", "word_out"}

    def test_what_an_output_says_goes_before_what_is_said_of_all(self, rest: Rest) -> None:
        wishes = [{"name": "sum"}, {"name": "word_out", "parameters": {"binary_data": False}}]
        assert self._in_binary(rest, {"parameters": {"binary_data_output": True}, "outputs": wishes}) == {"sum"}

    def _in_binary(self, rest: Rest, more: dict[str, Any]) -> set[str]:
        """Which outputs came in binary. The header says where the JSON ends; what follows are the outputs' bytes in order."""
        inputs = [
            {"name": one.name, "datatype": one.datatype, "shape": one.shape, "data": _texts(one)} for one in mixed().inputs
        ]
        response = rest.post(f"/v2/models/{MIXED}", {"inputs": inputs, **more})
        assert response.headers["content-type"] == "application/octet-stream"
        document = json.loads(response.content[: int(response.headers["inference-header-content-length"])])
        answer = read_answer(response)
        np.testing.assert_array_equal(answer.outputs["sum"], A + B)
        return {one["name"] for one in document["outputs"] if "binary_data_size" in one.get("parameters", {})}

    def test_a_body_without_json_is_the_one_input_of_the_model(self, rest: Rest) -> None:
        headers = {"inference-header-content-length": "0", "content-type": "application/octet-stream"}
        response = rest.http.post(f"/v2/models/{of('FP32')}/infer", content=A.tobytes(), headers=headers)
        assert read_answer(response).outputs["y"].tolist() == [[1, 2], [3, 4], [5, 6]]

    @pytest.mark.parametrize("said", [15, 17], ids=["fewer", "more"])
    def test_a_size_of_binary_data_that_does_not_fit_the_body_is_an_error(self, rest: Rest, said: int) -> None:
        tensor = {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": said}}
        with refused("invalid"):
            read_answer(rest.post(f"/v2/models/{of('FP32')}", {"inputs": [tensor]}, bytes(16)))

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[]", b"{}", b'{"inputs": 1}', b'{"inputs": [{}]}', b"\xff", b'{"inputs": [], "inputs": []}']
    )
    def test_a_body_that_the_protocol_does_not_know_is_an_error(self, rest: Rest, content: bytes) -> None:
        response = rest.http.post(f"/v2/models/{MIXED}/infer", content=content, headers={"content-type": "application/json"})
        assert response.status_code == 400

    @pytest.mark.parametrize(
        ("path", "status"), [(f"/v2/models/{NOBODY}", 404), ("/v2/nothing", 404), (f"/v2/models/{MIXED}/infer", 405)]
    )
    def test_an_error_is_json_with_one_text_and_a_status_of_its_own(self, rest: Rest, path: str, status: int) -> None:
        response = rest.http.get(path)
        assert response.status_code == status
        assert response.headers["content-type"] == "application/json"
        assert response.json().keys() == {"error"}
        assert isinstance(response.json()["error"], str)


def _texts(one: Tensor) -> list[Any]:
    return [part.decode() if isinstance(part, bytes) else part for part in one.data.reshape(-1).tolist()]


class GrpcConformance:
    """What gRPC alone can say: typed contents, raw contents, statuses and streams."""

    @pytest.fixture
    def served(self) -> Served:
        raise NotImplementedError("provide the server under test")

    @pytest.fixture
    def rpc(self, served: Served) -> Iterator[Grpc]:
        with Grpc(served.url, served.token) as face:
            yield face

    def request(self, datatype: str = "FP32", **more: Any) -> Any:
        made = service_pb2.ModelInferRequest(model_name=of(datatype), **more)
        made.inputs.add(name="x", datatype=datatype, shape=(2, 2))
        return made

    def test_raw_contents_are_answered_in_raw_contents(self, rpc: Grpc) -> None:
        said = rpc.call("ModelInfer", self.request(raw_input_contents=[A.tobytes()[:16]]))
        assert said.raw_output_contents == [A.tobytes()[:16]]
        assert not said.outputs[0].HasField("contents")

    def test_half_precision_has_no_typed_contents_and_goes_raw_alone(self, rpc: Grpc) -> None:
        request = self.request("FP16")
        request.inputs[0].contents.fp32_contents.extend([1, 2, 3, 4])
        with refused("invalid"):
            rpc.call("ModelInfer", request)

    def test_raw_and_typed_contents_are_not_mixed(self, rpc: Grpc) -> None:
        request = self.request(raw_input_contents=[bytes(16)])
        request.inputs[0].contents.fp32_contents.extend([1, 2, 3, 4])
        with refused("invalid"):
            rpc.call("ModelInfer", request)

    @pytest.mark.parametrize("contents", [[], [bytes(16), bytes(16)]], ids=["none", "two"])
    def test_there_is_one_raw_content_for_each_input(self, rpc: Grpc, contents: list[bytes]) -> None:
        with refused("invalid"):
            rpc.call("ModelInfer", self.request(raw_input_contents=contents))

    def test_contents_of_another_datatype_are_an_error(self, rpc: Grpc) -> None:
        request = self.request()
        request.inputs[0].contents.int64_contents.extend([1, 2, 3, 4])
        with refused("invalid"):
            rpc.call("ModelInfer", request)

    def test_a_message_that_is_none_is_an_error(self, rpc: Grpc) -> None:
        infer = rpc.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            infer(b"\xff\xff\xff", metadata=rpc.metadata)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    def test_a_method_that_there_is_not_is_unimplemented(self, rpc: Grpc) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            rpc.channel.unary_unary("/inference.GRPCInferenceService/Nothing")(b"", metadata=rpc.metadata)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED

    def test_a_stream_is_answered_request_by_request_and_an_error_does_not_end_it(self, rpc: Grpc) -> None:
        good = [self.request(id=str(number), raw_input_contents=[bytes(16)]) for number in range(3)]
        wrong = self.request(id="wrong", raw_input_contents=[bytes(15)])
        said = list(rpc.stub.ModelStreamInfer(iter([wrong, *good]), metadata=rpc.metadata, timeout=30))
        assert [bool(one.error_message) for one in said].count(True) == 1
        assert sorted(one.infer_response.id for one in said if not one.error_message) == ["0", "1", "2"]

    def test_the_health_check_that_every_grpc_server_shares_is_answered(self, rpc: Grpc) -> None:
        assert rpc.channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == b"\x08\x01"
