"""MLmodel files as MLflow writes them are understood; as an attacker writes them they are refused, quickly."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.registry.mlmodel import Column, Flavour, ModelDescription, Parameter, Tensor, read

MODELS = Path(__file__).parent / "models"


def read_text(text: str) -> ModelDescription:
    return read(text.encode())


def with_inputs(inputs: object) -> str:
    return f"signature: {{inputs: {json.dumps(json.dumps(inputs))}}}"


def test_what_mlflow_3_writes_is_understood() -> None:
    found = read((MODELS / "sklearn.MLmodel").read_bytes())
    assert found.flavours == (
        Flavour(name="python_function", files=("model.skops",)),
        Flavour(name="sklearn", files=("model.skops",)),
    )
    assert found.signature is not None
    assert found.signature.inputs[:2] == (Column(name="age", type="double"), Column(name="n", type="long"))
    assert found.signature.outputs == (Tensor(name="", dtype="int64", shape=(-1,)),)
    assert found.signature.params == (
        Parameter(name="t", type="double", default="0.5"),
        Parameter(name="names", type="string", default='["a"]', shape=(-1,)),
        Parameter(name="k", type="long", default="3"),
    )
    assert (found.python_version, found.mlflow_version) == ("3.11.7", "3.17.2")
    assert found.model_uuid == "752a773a2b3744eaa7741a79117100cd"
    assert found.model_id == ""  # the file says null
    assert found.requirements == ("conda.yaml", "python_env.yaml")


def test_what_mlflow_2_writes_is_understood() -> None:
    found = read((MODELS / "sklearn2.MLmodel").read_bytes())
    assert found.mlflow_version == "2.22.5"
    assert {flavour.files for flavour in found.flavours} == {("model.pkl",)}


def test_nested_types_optional_columns_and_named_tensors_are_understood() -> None:
    inputs = [
        {"name": "tags", "type": "array", "items": {"type": "array", "items": {"type": "string"}}, "required": False},
        {"name": "extra", "type": "object", "properties": {"a": {"type": "long"}}},
        {"name": "counts", "type": "map", "values": {"type": "long"}, "optional": True},
        {"name": "image", "type": "tensor", "tensor-spec": {"dtype": "uint8", "shape": [-1, 28, 28]}},
        {"type": "string"},
    ]
    signature = read_text(with_inputs(inputs)).signature
    assert signature is not None
    assert signature.inputs == (
        Column(name="tags", type="array<array<string>>", required=False),
        Column(name="extra", type="object"),
        Column(name="counts", type="map<long>", required=False),
        Tensor(name="image", dtype="uint8", shape=(-1, 28, 28)),
        Column(name="", type="string"),
    )


def test_a_model_may_say_almost_nothing() -> None:
    assert read_text("flavors:\n  python_function:\n    env: conda.yaml\n") == ModelDescription(
        flavours=(Flavour(name="python_function"),), requirements=("conda.yaml",)
    )
    assert read_text("flavors: null\nsignature: ~") == ModelDescription()


REFUSED = {
    "not YAML": "a: [1",
    "it holds nothing": "",
    "it holds a list": "- 1",
    "`flavors` is expected": "flavors: [onnx]",
    "has 101 flavours": json.dumps({"flavors": {f"f{number}": {} for number in range(101)}}),
    "YAML aliases": "a: &a [x]\nb: [*a, *a]",
    "levels deep": "[" * 30 + "]" * 30,
    "signature.inputs is expected to be a list in JSON": "signature: {inputs: 'nothing'}",
    "list of at most": "signature: {inputs: '[1]'}",
    "is expected to be a list in JSON": "signature: {inputs: [a]}",
    "no `tensor-spec`": with_inputs([{"type": "tensor", "name": "t"}]),
    "a shape of the signature": with_inputs([{"type": "tensor", "tensor-spec": {"dtype": "f", "shape": [1.5]}}]),
    "whole numbers from -1 up": with_inputs([{"type": "tensor", "tensor-spec": {"dtype": "f", "shape": [True]}}]),
    "a type of the signature": with_inputs([json.loads('{"type":"array","items":' * 40 + '"x"' + "}" * 40)]),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_is_no_mlmodel_is_refused_and_says_why(says: str) -> None:
    with pytest.raises(Invalid, match=says):
        read_text(REFUSED[says])


@pytest.mark.parametrize(
    "content",
    [
        b"a: " + b"x" * (1 << 20),
        b"\xff\xfe\x00",
        b"a: \x00",
        b"a" * 1000 + b": !!python/object/apply:os.system ['true']\n" + b"[" * 100_000,
        b"[" * 500_000,
        b"{a: " * 250_000,
        b"signature: {inputs: '" + b"[" * 200_000 + b"'}",
        b"a: 1:" + b"1:" * 300_000 + b"1",
        b"a: " + b"9" * 900_000,
        b"- " * 400_000,
        b"? " * 400_000,
        b"&a x\n" * 100_000,
        b"*a " * 100_000,
        b"---\n" * 100_000,
        b'signature: {params: \'[{"default": ' + b"[" * 900 + b"]" * 900 + b"}]'}",
    ],
    ids=range(15),
)
def test_nothing_takes_long_and_nothing_but_invalid_is_raised(content: bytes) -> None:
    began = time.monotonic()
    try:
        found: ModelDescription | None = read(content)
    except Invalid:
        found = None
    assert found is None or found.flavours == ()
    assert time.monotonic() - began < 5


def test_tags_that_would_make_objects_are_only_text() -> None:
    found = read_text("model_uuid: !!python/object/apply:os.getcwd []\nmlflow_version: !!python/name:os.system x")
    assert (found.model_uuid, found.mlflow_version) == ("", "x")


YAML = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["flavors", "signature", "inputs", "params", "env", "data", "python_function"]), inner
        )
    ),
    max_leaves=20,
)
FIELDS = st.dictionaries(
    st.sampled_from(["name", "type", "required", "tensor-spec", "shape", "items", "default"]),
    st.sampled_from(["tensor", "array", "double"]) | YAML,
)


@given(
    st.binary(max_size=60)
    | YAML.map(lambda document: json.dumps(document).encode())
    | st.lists(FIELDS, max_size=3).map(lambda inputs: with_inputs(inputs).encode())
)
def test_whatever_is_given_it_is_read_or_refused(content: bytes) -> None:
    try:
        told = str(read(content))
    except Invalid as error:
        told = str(error)
    assert told.encode()  # every text in it can be stored and shown
