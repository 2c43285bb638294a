"""Signing a version's files by name and digest, in the format of OpenSSF model-signing 1: that tool verifies it as well.

The signature is a sigstore bundle with a DSSE envelope around an in-toto statement. Every file is signed, also those of git
that the tool passes over unless it is told `--no-ignore-git-paths`.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.registry.operations.versions import VersionFile

BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PAYLOAD: Final = "application/vnd.in-toto+json"
PREDICATE: Final = "https://model_signing/signature/v1.0"
NAMED = 10  # so many files are named where they differ; the rest is counted


class Signer:
    """Signs with one private key on the curve P-256. Thread-safe. `pem` is the public key."""

    def __init__(self, key_id: str, private: EllipticCurvePrivateKey) -> None:
        self.key_id: Final = key_id
        self.pem: Final = pem_of(private.public_key())
        self._private = private

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message, ECDSA(SHA256()))


@value
class PublicKey:
    """What verifies a signature; `retired` keys sign no more and go on verifying."""

    id: str
    pem: str
    created: Moment
    retired: Moment | None = None


@value
class Verdict:
    """`key` names the key that signed, where the signature itself holds; `reasons` say what is wrong where it is not `ok`."""

    ok: bool
    key: str = ""
    reasons: tuple[str, ...] = ()


class _Unreadable(Exception):
    """The bundle is not one that this format knows; the message says what it has instead."""


def sign(model: str, files: Sequence[VersionFile], signer: Signer) -> bytes:
    """A bundle as JSON. `model` is what the signature calls the model. Raises `Invalid` where there is nothing to sign or a
    name stands there twice."""
    digests = {file.name: file.digest for file in files}
    if len(digests) != len(files) or not files:
        raise Invalid("A signature is made over at least one file, and over each name once.")
    return enclose(_json(_statement(model, digests)), signer)


def enclose(payload: bytes, signer: Signer) -> bytes:
    """A statement of in-toto's in a bundle, signed."""
    bundle = {
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": fingerprint(signer.pem)}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD,
            "signatures": [{"sig": base64.b64encode(signer.sign(_enveloped(payload))).decode(), "keyid": ""}],
        },
    }
    return _json(bundle)


def disclose(bundle: bytes, keys: Sequence[PublicKey]) -> tuple[bytes, PublicKey] | None:
    """What one of the keys signed, and which; None where none of them did. Never raises for what the bundle holds."""
    try:
        hint, payload, signature = _opened(bundle)
    except _Unreadable:
        return None
    key = _signer_among(keys, hint, payload, signature)
    return None if key is None else (payload, key)


def verify(bundle: bytes, files: Sequence[VersionFile], keys: Sequence[PublicKey]) -> Verdict:
    """Whether one of the keys signed exactly these names with exactly these digests. Never raises for what the bundle holds."""
    try:
        hint, payload, signature = _opened(bundle)
        key = _signer_among(keys, hint, payload, signature)
        if key is None:
            return Verdict(ok=False, reasons=("None of the project's keys made this signature.",))
        signed = _signed_digests(payload)
    except _Unreadable as error:
        return Verdict(ok=False, reasons=(f"This is no signature of a model: {error}.",))
    reasons = tuple(_differences(signed, files))
    return Verdict(ok=not reasons, key=key.id, reasons=reasons)


def pem_of(public: EllipticCurvePublicKey) -> str:
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def fingerprint(pem: str) -> str:
    """What the signature calls the key: the SHA-256 of its PEM text."""
    return hashlib.sha256(pem.encode()).hexdigest()


# Writing


def _statement(model: str, digests: Mapping[str, str]) -> dict[str, Any]:
    names = sorted(digests, key=lambda name: name.split("/"))  # the tool sorts names by their parts
    resources = [{"name": name, "algorithm": "sha256", "digest": digests[name]} for name in names]
    return {
        "_type": STATEMENT,
        "subject": [{"name": model, "digest": {"sha256": _root(digests[name] for name in names)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": []},
            "resources": resources,
        },
    }


def _root(digests: Iterable[str]) -> str:
    return hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in digests)).hexdigest()


def _enveloped(payload: bytes) -> bytes:
    """What DSSE really signs: the payload with its type and both lengths."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


# Reading


def _opened(bundle: bytes) -> tuple[str, bytes, bytes]:
    """The key's hint, the payload and the signature over it."""
    document = _parsed(bundle)
    if (kind := _at(document, str, "mediaType")) != BUNDLE:
        raise _Unreadable(f"its media type is {kind[:100]!r}, not {BUNDLE}")
    if (kind := _at(document, str, "dsseEnvelope", "payloadType")) != PAYLOAD:
        raise _Unreadable(f"its payload is {kind[:100]!r}, not {PAYLOAD}")
    signatures = _at(document, list, "dsseEnvelope", "signatures")
    if len(signatures) != 1:
        raise _Unreadable(f"it has {len(signatures)} signatures, not one")
    hint = _at(document, str, "verificationMaterial", "publicKey", "hint")
    return hint, _decoded(_at(document, str, "dsseEnvelope", "payload")), _decoded(_at(signatures[0], str, "sig"))


def _signer_among(keys: Sequence[PublicKey], hint: str, payload: bytes, signature: bytes) -> PublicKey | None:
    for key in keys:
        if fingerprint(key.pem) == hint and _holds(key.pem, signature, _enveloped(payload)):
            return key
    return None


def _holds(pem: str, signature: bytes, message: bytes) -> bool:
    public = load_pem_public_key(pem.encode())
    if not isinstance(public, EllipticCurvePublicKey):
        return False
    try:
        public.verify(signature, message, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def _signed_digests(payload: bytes) -> dict[str, str]:
    statement = _parsed(payload)
    for expected, path in ((STATEMENT, ("_type",)), (PREDICATE, ("predicateType",))):
        if (kind := _at(statement, str, *path)) != expected:
            raise _Unreadable(f"its statement says {kind[:100]!r}, not {expected}")
    method = _at(statement, str, "predicate", "serialization", "method")
    if method != "files":
        raise _Unreadable(f"it signs by {method[:100]!r}, and whole files are what can be compared")
    resources = _at(statement, list, "predicate", "resources")
    if other := {_at(one, str, "algorithm") for one in resources} - {"sha256"}:
        raise _Unreadable(f"it has digests of the kind {min(other)[:100]!r}, not sha256")
    names = Counter(_at(one, str, "name") for one in resources)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise _Unreadable(f"it names {repeated[0][:100]!r} twice")
    signed = {_at(one, str, "name"): _at(one, str, "digest") for one in resources}
    subjects = _at(statement, list, "subject")
    try:
        consistent = len(subjects) == 1 and _at(subjects[0], str, "digest", "sha256") == _root(signed.values())
    except ValueError:
        consistent = False
    if not consistent:
        raise _Unreadable("what it says of the whole does not follow from what it says of the files")
    return signed


def _differences(signed: Mapping[str, str], files: Sequence[VersionFile]) -> list[str]:
    there = {file.name: file.digest for file in files}
    found = {
        "differs from what was signed": [name for name in there if name in signed and signed[name] != there[name]],
        "was signed and is missing": [name for name in signed if name not in there],
        "is there and was never signed": [name for name in there if name not in signed],
    }
    reasons = [f"The file {name!r} {what}." for what, names in found.items() for name in sorted(names)]
    if len(there) != len(files):
        reasons.insert(0, "A name stands twice among the version's files.")
    more = len(reasons) - NAMED
    return [*reasons[:NAMED], f"So it is with {more} more."] if more > 0 else reasons


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise _Unreadable("it is not JSON") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _Unreadable("it has a part that is not base64") from None


def _at(document: Any, kind: type[Any], *path: str) -> Any:
    """What stands at the path, of that kind."""
    found = document
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, kind):
        raise _Unreadable(f"it has no {'.'.join(path)}")
    return found
