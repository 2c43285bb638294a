"""How gates and what they found are shown: in a table for people, in JUnit's XML for whatever runs them."""

from collections.abc import Sequence
from dataclasses import fields
from xml.etree.ElementTree import Element, SubElement, tostring  # nosec B405 - written, never read

from falaj.base.clock import SECOND
from falaj.cli.layout import Layout, brief
from falaj.lifecycle.operations.gates import Defined, Gate, GateRun, GateRuns, Gates
from falaj.registry.operations.evidence import EvidenceOf

_ALWAYS = ("name", "kind", "words", "lock")


def gates(layout: Layout, found: Gates) -> None:
    if not found.items:
        layout.line("No gates are defined. An operator defines some: falaj gate apply gates.toml")
        return
    rows = [(one.gate.name, one.gate.kind, limits(one.gate), brief(one.changed)) for one in found.items]
    layout.table(["gate", "kind", "asks", "changed"], rows)
    for one in found.require:
        whose = one.model or "every model"
        layout.line(f"For {one.alias} of {whose}: {', '.join(one.gates) or 'none'}.")


def limits(gate: Gate) -> str:
    """What it asks, in few words."""
    plain = Gate(name=gate.name, kind=gate.kind)
    told = [
        f"{name}={_short(getattr(gate, name))}"
        for name in (one.name for one in fields(Gate))
        if name not in _ALWAYS and getattr(gate, name) != getattr(plain, name)
    ]
    return " ".join(told) or "-"


def _short(one: object) -> str:
    return ",".join(map(str, one)) if isinstance(one, tuple) else str(one)


def gate(layout: Layout, found: Defined) -> None:
    layout.pairs(
        [
            ("gate", found.gate.name),
            ("kind", found.gate.kind),
            ("asks", limits(found.gate)),
            ("means", found.gate.words or None),
            ("digest", found.digest),
            ("changed", brief(found.changed)),
            ("changed by", found.changed_by.name),
        ]
    )


def results(layout: Layout, found: GateRuns) -> None:
    if not found.items:
        layout.line(f"No gate was run for {found.model} v{found.version} yet.")
        return
    rows = [(one.gate, one.kind, one.state, took(one), one.words) for one in found.items]
    layout.table(["gate", "kind", "state", "took", "found"], rows)


def took(run: GateRun) -> str:
    return "-" if run.ended is None else f"{(run.ended - run.created) / SECOND:.1f} s"


def evidence(layout: Layout, found: EvidenceOf) -> None:
    if not found.items:
        layout.line("No gate left evidence yet.")
        return
    rows = [
        (one.gate, "passed" if one.passed else "failed", "yes" if one.counts else "no", brief(one.at), one.by.name, one.words)
        for one in found.items
    ]
    layout.table(["gate", "state", "counts", "at", "by", "found"], rows)


def junit(found: GateRuns) -> bytes:
    """A suite for the version, a case for each gate; one that is not over counts as an error."""
    suite = f"{found.model} v{found.version}"
    times = [0.0 if one.ended is None else (one.ended - one.created) / SECOND for one in found.items]
    failures, errors = _count(found.items, "failed"), len(found.items) - _count(found.items, "failed", "passed")
    figures = {"name": suite, "tests": len(found.items), "failures": failures, "errors": errors, "time": f"{sum(times):.3f}"}
    top = Element("testsuites", {name: str(one) for name, one in figures.items()})
    suited = SubElement(top, "testsuite", {name: str(one) for name, one in figures.items()})
    for one, seconds in zip(found.items, times, strict=True):
        case = SubElement(suited, "testcase", {"classname": suite, "name": one.gate, "time": f"{seconds:.3f}"})
        words = "".join(letter if letter.isprintable() else "?" for letter in one.words)
        if one.state == "failed":
            SubElement(case, "failure", {"message": words, "type": one.kind}).text = words
        elif one.state != "passed":
            SubElement(case, "error", {"message": words or one.state, "type": one.kind})
        else:
            SubElement(case, "system-out").text = words
    return bytes(tostring(top, encoding="utf-8", xml_declaration=True))


def _count(runs: Sequence[GateRun], *states: str) -> int:
    return sum(one.state in states for one in runs)
