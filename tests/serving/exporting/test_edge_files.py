"""A bundle is written only of what its keys sign, and into an empty folder."""

import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from falaj.base.errors import Conflict, Corrupt
from falaj.serving.exporting import edge
from falaj.serving.operations.exports import Bundle
from falaj.serving.operations.planes import SignedState, TrustedKey
from falaj.serving.plane.joining import read_join
from falaj.serving.states import FORMAT, State, encode
from tests.serving.exporting.samples import endpoint_of
from tests.serving.exporting.test_kserve import ONNX


@pytest.fixture
def bundle():
    private, endpoint = Ed25519PrivateKey.generate(), endpoint_of(ONNX)
    state = State(format=FORMAT, serial=5, issued=5, issuer="falaj", zone="edge:1", endpoints=(endpoint,), token_keys={})
    body = encode(state)
    signed = SignedState(serial=5, body=body.decode(), key="k", signature=private.sign(body).hex())
    return Bundle(state=signed, keys=(TrustedKey(id="k", public=private.public_key().public_bytes_raw().hex()),))


def test_the_folder_says_how_it_is_used_and_shows_neither_model_nor_state(tmp_path, bundle):
    edge.write(tmp_path / "fraud-edge", bundle, ONNX.contents)
    told = (tmp_path / "fraud-edge" / "README.txt").read_text()
    assert "falaj serve --directory fraud-edge" in told
    assert "card-fraud version 7" in told
    join = read_join(tmp_path / "fraud-edge" / "keys" / "plane.json")
    assert (join.url, join.token, join.zone) == ("", "", "edge:1")
    for file in (tmp_path / "fraud-edge").rglob("*"):
        assert not (file.is_file() and ONNX.contents["m.onnx"] in file.read_bytes())
    assert json.loads((tmp_path / "fraud-edge" / "keys" / "plane.json").read_text())["keys"]


def test_what_is_not_signed_or_not_what_was_signed_is_not_written(tmp_path, bundle):
    other = replace(bundle, state=replace(bundle.state, body=bundle.state.body.replace("fraud", "freud")))
    with pytest.raises(Corrupt):
        edge.write(tmp_path / "a", other, ONNX.contents)
    with pytest.raises(Corrupt):
        edge.write(tmp_path / "b", bundle, {"m.onnx": b"poison"})


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, bundle):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Conflict, match="not empty"):
        edge.write(tmp_path, bundle, ONNX.contents)
