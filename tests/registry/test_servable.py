"""The servable check says precisely why a version can or cannot be served, and reads no more than it must."""

import ast
import gzip
import io
import pickle
import struct
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj import runtimes
from falaj.registry.formats.content import PAGE, Content
from falaj.registry.formats.onnx import read_onnx
from falaj.registry.mlmodel import Flavour, ModelDescription, read
from falaj.registry.operations.versions import VersionFile
from falaj.registry.servable import CONVERTED, Servable, check, is_convertible

MODELS = Path(__file__).parent / "models"
SIGNED = ModelDescription(signature=read((MODELS / "onnx.MLmodel").read_bytes()).signature)


def sample(name: str) -> bytes:
    return (MODELS / name).read_bytes()


def described(**flavours: str) -> ModelDescription:
    made = tuple(Flavour(name=name, files=(file,)) for name, file in flavours.items())
    return ModelDescription(flavours=made, signature=SIGNED.signature)


def checked(contents: Mapping[str, bytes], description: ModelDescription | None = SIGNED) -> Servable:
    files = [VersionFile(name=name, size=len(content), digest="0" * 64) for name, content in contents.items()]
    return check(files, description, lambda name, offset, length: contents[name][offset : offset + length])


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name in names:
            made.writestr(name, b"x" * 100)
    return buffer.getvalue()


SERVED = {
    "model.onnx": "onnx",
    "function.onnx": "onnx",
    "model.lgb": "lightgbm",
    "model.json": "xgboost",
    "model.ubj": "xgboost",
    "model.tflite": "litert",
}


@pytest.mark.parametrize("name", SERVED)
def test_a_servable_model_is_known_by_its_content_whatever_its_name(name: str) -> None:
    for called in (name, "data/no-name"):
        assert checked({called: sample(name)}) == Servable(ok=True, runtime=SERVED[name], file=called)


def test_an_openvino_model_needs_its_weights() -> None:
    both = {"model.xml": sample("model.xml"), "model.bin": sample("model.bin")}
    assert checked(both) == Servable(ok=True, runtime="openvino", file="model.xml")
    assert "'model.bin' is missing" in checked({"model.xml": sample("model.xml")}).reasons[0]


def test_an_onnx_model_needs_the_files_that_hold_its_weights() -> None:
    both = {"m/outside.onnx": sample("outside.onnx"), "m/outside.onnx.data": sample("outside.onnx.data")}
    assert checked(both) == Servable(ok=True, runtime="onnx", file="m/outside.onnx")
    assert checked({"m/outside.onnx": sample("outside.onnx")}).reasons == (
        "'m/outside.onnx' keeps weights in 'outside.onnx.data', which the version has not: register it complete.",
    )


@pytest.mark.parametrize("place", [b"/etc/passwd_12345", b"../outside.o.data"])
def test_an_onnx_model_that_wants_files_from_elsewhere_is_refused(place: bytes) -> None:
    verdict = checked({"outside.onnx": sample("outside.onnx").replace(b"outside.onnx.data", place)})
    assert not verdict.ok
    assert "outside of the model's folder" in verdict.reasons[0]


def test_custom_operators_are_named_also_inside_of_branches() -> None:
    assert checked({"m.onnx": sample("custom.onnx")}).reasons == (
        "'m.onnx' needs operators that no runtime here has: 'com.acme:Fancy'. Export it with standard operators alone.",
    )
    assert "'FlexAcme'" in checked({"m.tflite": sample("custom.tflite")}).reasons[0]
    layer = sample("model.xml").replace(b'type="Multiply" version="opset1"', b'type="Fancy" version="extension"')
    assert "'extension:Fancy'" in checked({"m.xml": layer, "m.bin": b"1234"}).reasons[0]


def test_an_old_or_odd_openvino_model_is_refused() -> None:
    old = sample("model.xml").replace(b'version="11"', b'version="7"')
    assert "an IR of version 7" in checked({"m.xml": old, "m.bin": b""}).reasons[0]
    odd = sample("model.xml").replace(b"<net", b'<!DOCTYPE x [<!ENTITY a "b">]><net')
    assert "cannot be read as one" in checked({"m.xml": odd, "m.bin": b""}).reasons[0]


NOT_SERVED = {
    "is a pickle, which can run any code": pickle.dumps({"a": 1}),
    "is a pickle, which can run": pickle.dumps([1], protocol=0),
    "is a PyTorch archive with a pickle in it, which can run any code": archive("weights/data.pkl", "weights/data/0"),
    "torch.onnx.export": archive("p/archive_format", "p/models/model.json"),
    "skl2onnx.to_onnx": archive("123.npy", "schema.json"),
    'format="onnx"': archive("metadata.json", "config.json", "model.weights.h5"),
    "is an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(100),
    "is a compressed file": gzip.compress(b"a pickle, perhaps"),
    "is a CatBoost model": b"CBM1" + bytes(50),
    "holds weights without the model": struct.pack("<Q", 2) + b"{}",
    "is a GGUF file": b"GGUF" + bytes(50),
    "None of its 1 files is a model": b"hello\n",
}


@pytest.mark.parametrize("says", NOT_SERVED)
def test_what_is_not_served_is_named_with_what_to_do(says: str) -> None:
    verdict = checked({"some": NOT_SERVED[says]})
    assert (verdict.ok, verdict.runtime, verdict.file) == (False, "", "")
    assert says in verdict.reasons[0]


def test_a_deployment_converts_the_flavours_that_the_sandbox_knows_and_no_other() -> None:
    program = ast.parse((Path(runtimes.__file__).parent / "sandboxed" / "convert.py").read_text())
    [table] = [one.value for one in program.body if isinstance(one, ast.AnnAssign | ast.Assign) and _named(one) == "CONVERTERS"]
    assert isinstance(table, ast.Dict)
    assert {key.value for key in table.keys if isinstance(key, ast.Constant)} == CONVERTED
    assert is_convertible(servable=False, flavours=("python_function", "sklearn"), files=3)
    assert not is_convertible(servable=True, flavours=("sklearn",), files=3)
    assert not is_convertible(servable=False, flavours=("spark", "python_function"), files=3)
    assert not is_convertible(servable=False, flavours=("sklearn",), files=0)


def _named(one: ast.AnnAssign | ast.Assign) -> str:
    target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def test_a_broken_archive_and_a_pickle_in_disguise_are_not_served() -> None:
    assert "compressed file" in checked({"m.onnx": archive("a")[:60]}).reasons[0]
    assert "is a pickle" in checked({"model.onnx": pickle.dumps(1)}).reasons[0]
    assert "is a pickle" in checked({"model.joblib": b"anything"}).reasons[0]
    assert "SavedModel" in checked({"m/saved_model.pb": b"\x08\x01\x12\x00"}).reasons[0]


@pytest.mark.parametrize(
    ("flavour", "way"),
    [
        ("sklearn", "`skl2onnx.to_onnx(model, X[:1])`"),
        ("lightgbm", "`mlflow.lightgbm.log_model(model.booster_)`"),
        ("xgboost", "`mlflow.xgboost.log_model(model.get_booster())`"),
        ("pytorch", "`torch.onnx.export("),
    ],
)
def test_a_pickle_comes_with_the_way_out_for_its_library(flavour: str, way: str) -> None:
    verdict = checked({"MLmodel": b"", "model.pkl": pickle.dumps(1)}, described(**{flavour: "model.pkl"}))
    assert not verdict.ok
    assert verdict.reasons[0].startswith("'model.pkl' is a pickle")
    assert way in verdict.reasons[0]


def test_the_mlmodel_file_says_which_file_is_the_model() -> None:
    files = {"MLmodel": b"", "a.onnx": sample("model.onnx"), "b.onnx": sample("function.onnx"), "data/m": sample("model.lgb")}
    assert checked(files, described(onnx="b.onnx")).file == "b.onnx"
    assert checked(files, described(lightgbm="data")) == Servable(ok=True, runtime="lightgbm", file="data/m")
    assert "no such file" in checked(files, described(onnx="c.onnx")).reasons[0]
    assert "of a kind that is not served" in checked(files, described(spark="MLmodel")).reasons[0]
    nameless = ModelDescription(flavours=(Flavour(name="spark"),))
    assert "does not say which file is the model" in checked(files, nameless).reasons[0]


def test_a_pickle_that_the_mlmodel_file_names_is_not_outdone_by_a_model_beside_it() -> None:
    files = {"MLmodel": b"", "model.pkl": pickle.dumps(1), "model.onnx": sample("model.onnx")}
    assert not checked(files, described(sklearn="model.pkl")).ok


def test_code_of_its_own_is_not_served_even_where_it_wraps_a_model() -> None:
    files = {"data/model.onnx": sample("model.onnx")}
    verdict = checked(files, described(python_function="data"))
    assert not verdict.ok
    assert "Its only flavour is python_function" in verdict.reasons[0]
    both = described(onnx="data", python_function="data")
    assert checked(files, both).ok


def test_without_an_mlmodel_file_a_model_stands_out_or_is_asked_for() -> None:
    one = {"notes.txt": b"x", "m.onnx": sample("model.onnx"), "m.tflite": sample("model.tflite")}
    assert checked(one).runtime == "onnx"
    two = {"a.onnx": sample("model.onnx"), "b.onnx": sample("model.onnx")}
    assert checked(two).reasons == (
        "It holds 2 files that are each an ONNX model ('a.onnx', 'b.onnx'): register each as a version of its own.",
    )
    beside = checked({"m.onnx": sample("model.onnx"), "old.pkl": pickle.dumps(1)})
    assert beside.ok
    assert "'old.pkl' is a pickle" in beside.reasons[0]


def test_a_model_without_an_input_signature_is_served_with_a_warning() -> None:
    verdict = checked({"m.onnx": sample("model.onnx")}, None)
    assert verdict.ok
    assert "no input signature" in verdict.reasons[0]


def test_a_version_without_files_says_that_they_are_not_here() -> None:
    assert "not in Falaj" in checked({}).reasons[0]


def test_onnx_is_read_as_its_library_wrote_it() -> None:
    content = sample("model.onnx")
    found = read_onnx(Content(lambda _, offset, length: content[offset : offset + length], "m", len(content)))
    assert found.inputs == ("X",)
    assert found.outputs == ("label", "probabilities")
    assert ("ai.onnx.ml", 1) in found.opsets
    assert found.ir_version >= 8


def bytes_field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    made = b""
    while number > 0x7F:
        made, number = made + bytes([number & 0x7F | 0x80]), number >> 7
    return made + bytes([number])


def onnx_of(graph: bytes) -> bytes:
    return b"\x08\x09" + bytes_field(7, graph) + bytes_field(8, b"\x10\x11")


def test_weights_are_stepped_over() -> None:
    """A model of 400 MB is read in a few pages."""
    ends = bytes_field(11, bytes_field(1, b"x")) + bytes_field(12, bytes_field(1, b"y"))
    size = 100 << 20
    weights = varint(9 << 3 | 2) + varint(size)
    start = varint(5 << 3 | 2) + varint(len(weights) + size) + weights
    length = 4 * (len(start) + size) + len(ends)
    head = b"\x08\x09" + varint(7 << 3 | 2) + varint(length)
    tail = bytes_field(8, b"\x10\x11")
    parts = {len(head) + index * (len(start) + size): start for index in range(4)} | {
        0: head,
        len(head) + length - len(ends): ends + tail,
    }
    total, reads = len(head) + length + len(tail), []

    def read_part(_: str, offset: int, wanted: int) -> bytes:
        reads.append(wanted)
        page = bytearray(wanted)
        for at, part in parts.items():
            for index, byte in enumerate(part):
                if offset <= at + index < offset + wanted:
                    page[at + index - offset] = byte
        return bytes(page)

    found = read_onnx(Content(read_part, "m.onnx", total))
    assert (found.inputs, found.outputs) == (("x",), ("y",))
    assert sum(reads) <= 8 * PAGE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x08\x09",
        b"\x08\x09\x3a\xff\xff\xff\xff\x0f",
        onnx_of(bytes_field(1, bytes_field(5, b"\x2a\x00"))),
        onnx_of(bytes_field(1, b"\x28\x01" * 1000)),
        onnx_of(bytes_field(1, b"") * 700_000),
        sample("model.onnx")[:-5],
        b"\x0b" * 1000,
        b"\xff" * 1000,
    ],
    ids=range(9),
)
def test_a_malformed_onnx_file_is_refused_in_time(content: bytes) -> None:
    began = time.monotonic()
    verdict = checked({"m.onnx": content})
    assert not verdict.ok
    assert verdict.reasons
    assert time.monotonic() - began < 20


def test_many_large_graphs_under_other_names_are_told_by_their_beginnings() -> None:
    graph = onnx_of(b"\x10\x00" * 200_000)
    started = time.process_time()
    found = checked({f"{number}.bin": graph + bytes([0x10, number]) for number in range(100)})
    assert time.process_time() - started < 10
    assert "100 files that are each an ONNX model" in found.reasons[0]


def test_graphs_nested_too_deep_are_refused() -> None:
    graph = b""
    for _ in range(60):
        graph = bytes_field(1, bytes_field(5, bytes_field(6, graph)))
    assert "nested" in checked({"m.onnx": onnx_of(graph)}).reasons[0]


@given(st.sampled_from(["model.onnx", "model.tflite", "model.xml", "outside.onnx", "custom.tflite"]), st.data())
def test_whatever_happened_to_a_file_there_is_an_answer(name: str, data: st.DataObject) -> None:
    content = bytearray(sample(name))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    verdict = checked({name: bytes(content), "model.bin": b"", "outside.onnx.data": b""})
    assert verdict.ok or verdict.reasons


@given(st.binary(max_size=200), st.sampled_from(["m", "m.onnx", "m.pkl", "m.xml", "saved_model.pb"]))
def test_whatever_a_file_holds_there_is_an_answer(content: bytes, name: str) -> None:
    for beginning in (b"", b"PK\x03\x04", b"\x08\x09\x3a", b"\x00\x00\x00\x00TFL3", b"<?xml?><net "):
        verdict = checked({name: beginning + content})
        assert verdict.ok or verdict.reasons
