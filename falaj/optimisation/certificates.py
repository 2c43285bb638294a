"""Certificates: what was measured of a variant, on which rows, against what; a statement of in-toto's, signed by the project.

Its subjects are the variant's files, so that whoever has a file and the project's public key can check what is said of it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from falaj.base.encoding import canonical
from falaj.base.values import value
from falaj.optimisation.judging import Judged, Verdict
from falaj.optimisation.operations.variants import CertifyVariant
from falaj.optimisation.operations.words import Measures
from falaj.registry.signing import STATEMENT, PublicKey, Signer, disclose, enclose

PREDICATE: Final = "https://falaj.dev/variant-certificate/v1"
FORMAT: Final = 1


@value
class Issued:
    """A certificate as it is kept."""

    bundle: str
    digest: str


@value
class Examined:
    """What a kept certificate is worth. `document` is empty where nobody of the project signed it."""

    document: dict[str, Any]
    key: str
    problems: tuple[str, ...]


def issue(document: Mapping[str, Any], files: Mapping[str, str], signer: Signer) -> Issued:
    """`files` are the digests of the variant's files, by name."""
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(files.items())]
    statement = {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": document}
    payload = canonical(statement)
    return Issued(
        bundle=enclose(payload, signer).decode(),
        digest=hashlib.sha256(payload).hexdigest(),
    )


def examine(
    bundle: str,
    *,
    variant: Mapping[str, Any],
    fit: bool,
    files: Mapping[str, str],
    version: str,
    version_digest: str,
    keys: Sequence[PublicKey],
) -> Examined:
    """Whether the project signed it, with this verdict, for this variant as it is to be run, for exactly these files, of this
    version as it is."""
    found = disclose(bundle.encode(), keys)
    if found is None:
        return Examined(document={}, key="", problems=("None of the project's keys signed it.",))
    statement = json.loads(found[0])
    said = statement.get("predicate", {})
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement.get("subject", ())}
    problems = []
    if statement.get("predicateType") != PREDICATE or said.get("variant", {}).get("id") != variant["id"]:
        problems.append("It is the certificate of something else.")
    elif any(said["variant"].get(name) != wanted for name, wanted in variant.items()):
        problems.append("The variant is to be run otherwise than was certified.")
    if said.get("verdict", {}).get("fit") is not fit:
        problems.append("Its verdict is another than what was signed.")
    if subjects != dict(files):
        problems.append("The variant's files are not those that were certified.")
    if (said.get("model", {}).get("version_id"), said.get("model", {}).get("digest")) != (version, version_digest):
        problems.append("It was measured against another version.")
    return Examined(document=said, key=found[1].pem, problems=tuple(problems))


def quality(verdict: Verdict, evidence: CertifyVariant) -> dict[str, Any]:
    worst = verdict.worst
    return {
        "overall": _judged(verdict.overall),
        "slices": [_judged(one) for one in verdict.slices],
        "scores": [_judged(one) | {"by": one.by} for one in verdict.scores],
        "worst_slice": worst.name if worst else "",
        "agreement": _number(evidence.agreement),
        "apart": _number(evidence.apart),
        "calibration": {
            "original": _number(evidence.original_calibration_error),
            "variant": _number(evidence.calibration_error),
            "change": _number(evidence.calibration_error - evidence.original_calibration_error),
        },
    }


def latency(measures: Measures, original: Measures) -> dict[str, Any]:
    return {"variant": _measures(measures), "original": _measures(original)}


def _judged(one: Judged) -> dict[str, Any]:
    numbers = ("original", "variant", "drop", "high", "margin", "chance")
    return {"name": one.name, "rows": one.rows, "ok": one.ok} | {name: _number(getattr(one, name)) for name in numbers}


def _measures(one: Measures) -> dict[str, Any]:
    numbers = ("times", "rows_per_s", "p50_ms", "p50_low", "p50_high", "p99_ms", "p99_low", "p99_high", "joules", "cost")
    whole = {"batch": one.batch, "size": one.size, "memory": one.memory, "energy": one.energy, "device": one.device}
    return {name: _number(getattr(one, name)) for name in numbers} | whole


def _number(number: float) -> str:
    """As text of six digits: what is signed must be written the same everywhere."""
    return f"{number:.6g}"
