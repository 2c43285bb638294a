"""Signatures of models: OpenSSF's own tool accepts ours, we accept its, and neither accepts a model that was changed."""

import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from model_signing import signing as stock_signing
from model_signing import verifying as stock_verifying

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.registry.operations.versions import VersionFile
from falaj.registry.signing import PublicKey, Signer, Verdict, fingerprint, sign, verify

PRIVATE = generate_private_key(SECP256R1())
SIGNER = Signer("a" * 32, PRIVATE)
KEY = PublicKey(id=SIGNER.key_id, pem=SIGNER.pem, created=Moment(0))
OTHER = Signer("b" * 32, generate_private_key(SECP256R1()))


def file(name: str, content: bytes) -> VersionFile:
    return VersionFile(name=name, size=len(content), digest=hashlib.sha256(content).hexdigest())


def files_in(folder: Path) -> list[VersionFile]:
    return [file(str(path.relative_to(folder)), path.read_bytes()) for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors: {}")
    (folder / "data.txt").write_bytes(b"")
    (folder / "data" / "weights.bin").write_bytes(bytes(range(256)))
    (folder / "data" / "deep" / "größe ü.json").write_text("{}")
    return folder


def stock_accepts(model: Path, bundle: bytes, pem: str = SIGNER.pem) -> bool:
    signature, key = model.parent / "model.sig", model.parent / "key.pem"
    signature.write_bytes(bundle)
    key.write_text(pem)
    try:
        stock_verifying.Config().use_elliptic_key_verifier(public_key=key).verify(model, signature)
    except ValueError:
        return False
    return True


def test_the_stock_tool_verifies_our_signature(model: Path) -> None:
    bundle = sign("fraud", files_in(model), SIGNER)
    assert stock_accepts(model, bundle)
    assert not stock_accepts(model, bundle, OTHER.pem)
    assert verify(bundle, files_in(model), [KEY]) == Verdict(ok=True, key=KEY.id)


def test_we_verify_the_stock_tools_signature(model: Path) -> None:
    private = model.parent / "private.pem"
    private.write_bytes(PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    stock_signing.Config().use_elliptic_key_signer(private_key=private).sign(model, model.parent / "stock.sig")
    bundle = (model.parent / "stock.sig").read_bytes()
    assert verify(bundle, files_in(model), [KEY]) == Verdict(ok=True, key=KEY.id)
    (model / "MLmodel").write_text("flavors: {evil}")
    assert not verify(bundle, files_in(model), [KEY]).ok


CHANGES: dict[str, Callable[[Path], object]] = {
    "changed": lambda model: (model / "MLmodel").write_text("flavors: []"),
    "added": lambda model: (model / "data" / "more.bin").write_bytes(b"x"),
    "removed": lambda model: (model / "data.txt").unlink(),
    "renamed": lambda model: (model / "data.txt").rename(model / "data" / "data.txt"),
    "swapped": lambda model: (model / "MLmodel").replace(model / "data" / "weights.bin"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_refused_by_both(model: Path, change: str) -> None:
    bundle = sign("fraud", files_in(model), SIGNER)
    CHANGES[change](model)
    assert not stock_accepts(model, bundle)
    verdict = verify(bundle, files_in(model), [KEY])
    assert not verdict.ok
    assert verdict.key == KEY.id
    assert verdict.reasons


def test_what_differs_is_named() -> None:
    signed = [file("a", b"1"), file("b", b"2"), file("c", b"3")]
    bundle = sign("m", signed, SIGNER)
    assert verify(bundle, [file("a", b"!"), file("b", b"2"), file("d", b"4")], [KEY]).reasons == (
        "The file 'a' differs from what was signed.",
        "The file 'c' was signed and is missing.",
        "The file 'd' is there and was never signed.",
    )
    many = verify(bundle, [*signed, *(file(f"new{number}", b"") for number in range(30))], [KEY])
    assert len(many.reasons) == 11
    assert many.reasons[-1] == "So it is with 20 more."


def test_only_the_given_keys_count() -> None:
    files = [file("a", b"1")]
    bundle = sign("m", files, OTHER)
    retired = PublicKey(id=OTHER.key_id, pem=OTHER.pem, created=Moment(0), retired=Moment(1))
    assert verify(bundle, files, [KEY]) == Verdict(ok=False, reasons=("None of the project's keys made this signature.",))
    assert not verify(bundle, files, []).ok
    assert verify(bundle, files, [KEY, retired]).key == OTHER.key_id


def test_a_signature_that_claims_to_be_of_a_known_key_is_refused() -> None:
    files = [file("a", b"1")]
    bundle = json.loads(sign("m", files, OTHER))
    bundle["verificationMaterial"]["publicKey"]["hint"] = fingerprint(KEY.pem)
    assert not verify(json.dumps(bundle).encode(), files, [KEY]).ok


def test_nothing_and_names_given_twice_are_not_signed() -> None:
    for files in ([], [file("a", b"1"), file("a", b"1")]):
        with pytest.raises(Invalid):
            sign("m", files, SIGNER)
    assert not verify(sign("m", [file("a", b"1")], SIGNER), [file("a", b"1"), file("a", b"1")], [KEY]).ok


NAMES = st.lists(st.text("abc.é ", min_size=1, max_size=3).filter(lambda part: part.strip(".")), min_size=1, max_size=3).map(
    "/".join
)
MANIFESTS = st.dictionaries(NAMES, st.binary(max_size=4), min_size=1, max_size=8).map(
    lambda contents: [file(name, content) for name, content in contents.items()]
)


@given(MANIFESTS, st.randoms())
def test_any_manifest_signs_and_verifies_in_any_order(files: list[VersionFile], random: Random) -> None:
    bundle = sign("m", files, SIGNER)
    random.shuffle(files)
    assert verify(bundle, files, [KEY]) == Verdict(ok=True, key=KEY.id)


@given(MANIFESTS, st.data())
def test_any_single_change_is_refused(files: list[VersionFile], data: st.DataObject) -> None:
    bundle = sign("m", files, SIGNER)
    position = data.draw(st.integers(0, len(files) - 1))
    old, names = files[position], {one.name for one in files}
    fresh = data.draw(NAMES.filter(lambda name: name not in names))
    changed = {
        "changed": [dataclasses.replace(old, digest=hashlib.sha256(old.digest.encode()).hexdigest())],
        "renamed": [dataclasses.replace(old, name=fresh)],
        "removed": [],
        "added": [old, file(fresh, b"new")],
    }[data.draw(st.sampled_from(["changed", "renamed", "removed", "added"]))]
    assert not verify(bundle, files[:position] + changed + files[position + 1 :], [KEY]).ok


TWO = [file("a", b"1"), file("b", b"2")]
SIGNED = sign("m", TWO, SIGNER)


@given(st.data())
def test_a_payload_or_signature_that_was_touched_is_refused(data: st.DataObject) -> None:
    bundle = json.loads(SIGNED)
    envelope = bundle["dsseEnvelope"]
    holder, field = data.draw(st.sampled_from([(envelope, "payload"), (envelope["signatures"][0], "sig")]))
    raw = bytearray(base64.b64decode(holder[field]))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    holder[field] = base64.b64encode(raw).decode()
    assert not verify(json.dumps(bundle).encode(), TWO, [KEY]).ok


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["mediaType", "dsseEnvelope", "sig"]), inner),
    max_leaves=10,
)


@given(st.binary(max_size=50) | JSON.map(lambda document: json.dumps(document).encode()))
def test_what_is_no_bundle_is_refused_and_raises_nothing(bundle: bytes) -> None:
    verdict = verify(bundle, [file("a", b"1")], [KEY])
    assert not verdict.ok
    assert verdict.reasons


STATEMENT_FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "statement says": lambda one: one.update(_type="https://in-toto.io/Statement/v0.1"),
    "statement says 'https://slsa": lambda one: one.update(predicateType="https://slsa.dev/provenance/v1"),
    "signs by 'shards'": lambda one: one["predicate"]["serialization"].update(method="shards"),
    "of the kind 'blake3'": lambda one: one["predicate"]["resources"][0].update(algorithm="blake3"),
    "names 'a' twice": lambda one: one["predicate"]["resources"].append(one["predicate"]["resources"][0]),
    "does not follow": lambda one: one["subject"][0]["digest"].update(sha256="0" * 64),
    "not follow from": lambda one: one["predicate"]["resources"][0].update(digest="no hex"),
    "has no predicate.resources": lambda one: one["predicate"].pop("resources"),
}


@pytest.mark.parametrize("says", STATEMENT_FAULTS)
def test_a_well_signed_statement_of_another_kind_is_refused_and_says_why(says: str) -> None:
    files = [file("a", b"1")]
    bundle = json.loads(sign("m", files, SIGNER))
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    STATEMENT_FAULTS[says](statement)
    payload = json.dumps(statement).encode()
    kind = b"application/vnd.in-toto+json"
    signature = SIGNER.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    bundle["dsseEnvelope"].update(
        payload=base64.b64encode(payload).decode(), signatures=[{"sig": base64.b64encode(signature).decode()}]
    )
    verdict = verify(json.dumps(bundle).encode(), files, [KEY])
    assert not verdict.ok
    assert says in verdict.reasons[0]


def test_git_files_are_signed_like_all_others(model: Path) -> None:
    (model / ".gitattributes").write_text("*.bin filter=lfs")
    bundle = sign("m", files_in(model), SIGNER)
    (model / ".gitattributes").write_text("*.bin filter=evil")
    assert verify(bundle, files_in(model), [KEY]).reasons == ("The file '.gitattributes' differs from what was signed.",)
