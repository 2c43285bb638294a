"""Definitions of gates: what of a gate suits its kind, what is meant where nothing is said, and the digest of it. Pure.

Evidence counts under one digest: whoever could change the definition and keep the digest could pass any gate.
"""

import hashlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from falaj.base.encoding import canonical
from falaj.base.errors import Invalid
from falaj.lifecycle.gates import analysis
from falaj.lifecycle.operations.gates import Gate, GateKind, Requirement
from falaj.operations.messages import adapter
from falaj.registry.operations.words import CHAMPION

_LEAST_MARGIN: Final = 0.0001
_LEAST_SURE, _SUREST = 0.9, 0.9999
_RUN: Final = ("cpus", "memory_mib", "seconds")
_TAKEN: Final[dict[GateKind, tuple[str, ...]]] = {
    "signature": (),
    "certificate": ("max_drop",),
    "data": (),
    "cost": ("budget",),
    "licences": ("licences",),
    "vulnerabilities": ("ignore", "days"),
    "quality": ("on", "label", "slices", "against", "max_drop", "max_slice_drop", "confidence", "least", "most", *_RUN),
    "latency": ("on", "p99_ms", "budget", *_RUN),
    "fairness": ("on", "label", "groups", "figures", "positive", "max_gap", "confidence", *_RUN),
    "leakage": ("on", "label", "training", "keys", *_RUN),
    "tests": ("command", "lock", "image", "hosts", *_RUN),
    "static": ("command", "lock", "image", *_RUN),
    "command": ("command", "lock", "image", "hosts", *_RUN),
}
_NEEDED: Final[dict[GateKind, tuple[str, ...]]] = {
    "cost": ("budget",),
    "licences": ("licences",),
    "quality": ("on", "label"),
    "latency": ("on",),
    "fairness": ("on", "label", "groups", "max_gap"),
    "leakage": ("on", "label"),
    "command": ("command",),
}
# Isolated: a file of the source that is called like the tool, or a setting of its own, must not decide what it finds.
ANALYSIS: Final = ("python", "-I", "-c", Path(analysis.__file__).read_text(encoding="utf-8"))
_USUAL: Final[dict[GateKind, dict[str, Any]]] = {
    "certificate": {"max_drop": 0.01},
    "vulnerabilities": {"days": 30},
    "quality": {"against": CHAMPION, "max_drop": 0.01, "max_slice_drop": 0.05, "confidence": 0.95},
    "fairness": {"figures": ("selected", "right"), "confidence": 0.95},
    "tests": {"command": ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")},
    "static": {"command": ANALYSIS},
}


def completed(gate: Gate) -> Gate:
    """With what is meant where nothing was said. Raises `Invalid` for what does not suit the kind, or cannot be shown."""
    plain = Gate(name=gate.name, kind=gate.kind)
    given = {one.name for one in fields(Gate) if getattr(gate, one.name) != getattr(plain, one.name)} - {"words"}
    where = f"The gate {gate.name!r} is of the kind {gate.kind}, which"
    if odd := sorted(given - set(_TAKEN[gate.kind])):
        takes = ", ".join(_TAKEN[gate.kind]) or "nothing more"
        raise Invalid(f"{where} does not take {', '.join(odd)}. It takes {takes}.")
    if missing := [name for name in _NEEDED.get(gate.kind, ()) if name not in given]:
        raise Invalid(f"{where} needs {', '.join(missing)}.")
    whole = replace(gate, **{name: usual for name, usual in _USUAL.get(gate.kind, {}).items() if name not in given})
    _check(whole)
    return whole


def _check(gate: Gate) -> None:
    where = f"The gate {gate.name!r}"
    if gate.kind == "quality" and not all(_LEAST_MARGIN <= one < 1 for one in (gate.max_drop, gate.max_slice_drop)):
        raise Invalid(f"{where} has to allow a drop of at least {_LEAST_MARGIN:.2%} and less than all: no rows show less.")
    if gate.confidence and not _LEAST_SURE <= gate.confidence <= _SUREST:
        raise Invalid(f"{where} has a confidence of {gate.confidence:g}; it lies between {_LEAST_SURE:g} and {_SUREST:g}.")
    if gate.kind == "latency" and not (gate.p99_ms or gate.budget):
        raise Invalid(f"{where} bounds neither p99_ms nor budget: say at least one of them.")
    if gate.kind == "fairness" and not gate.positive and set(gate.figures) != {"right"}:
        raise Invalid(f"{where} needs positive, the label that is selected or recognised; or figures = ['right'] alone.")
    if gate.kind == "fairness" and gate.max_gap >= 1:
        raise Invalid(f"{where} allows any gap: max_gap is less than 1.")
    if gate.lock and gate.image:
        raise Invalid(f"{where} takes lock or image, not both.")


def digest_of(gate: Gate) -> str:
    """Of what it asks; words for people are none of it."""
    return hashlib.sha256(canonical(adapter(Gate).dump_python(replace(gate, words=""), mode="json"))).hexdigest()


def written(gate: Gate) -> str:
    return adapter(Gate).dump_json(gate).decode()


def read(text: str) -> Gate:
    made: Gate = adapter(Gate).validate_json(text)
    return made


def check_together(gates: tuple[Gate, ...], require: tuple[Requirement, ...]) -> None:
    """Raises `Invalid` where two have one name, or one is required that nobody defined."""
    names = [gate.name for gate in gates]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"There are two gates named {twice[0]!r}.")
    places = [(one.model, one.alias.lower()) for one in require]
    if several := sorted({place for place in places if places.count(place) > 1}):
        raise Invalid(f"What is required for {several[0][1]} of {several[0][0] or 'every model'} is said twice.")
    for one in require:
        check_defined(one.gates, names)


def check_defined(wanted: tuple[str, ...], names: list[str]) -> None:
    if unknown := sorted(set(wanted) - set(names)):
        raise Invalid(f"There is no gate {unknown[0]!r}. There are {', '.join(sorted(names)) or 'none'}.")
