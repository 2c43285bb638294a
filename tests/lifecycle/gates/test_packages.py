"""What is known of packages, out of the files that scanners write, held against what a version needs."""

import json
from typing import Any

import pytest

from falaj.base.errors import Invalid
from falaj.lifecycle.gates.packages import Needed, needed, read_advisories, read_licences, unlicensed, vulnerable


def osv(id: str, package: str, *events: dict[str, str], versions: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    affected = {
        "package": {"ecosystem": "PyPI", "name": package},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
        "versions": list(versions),
    }
    return {"id": id, "affected": [affected], **more}


def needs(name: str, version: str) -> Needed:
    return Needed(name=name, version=version)


def hits(told: dict[str, str], *packages: Needed, ignore: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [(one.package, one.why) for one in vulnerable(packages, told, ignore)]


def test_versions_lie_in_the_spans_that_an_advisory_names() -> None:
    entries = [
        osv("PYSEC-1", "Some_Lib", {"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "2.0"}, {"last_affected": "2.3"}),
        osv("PYSEC-2", "other", versions=("3.1",), aliases=["CVE-2026-1"]),
        osv("PYSEC-3", "gone", {"introduced": "0"}, withdrawn="2026-01-01T00:00:00Z"),
    ]
    for content in (json.dumps(entries), "\n".join(json.dumps(one) for one in entries)):
        told = read_advisories(content.encode())
        for version, affected in (("1.1.9", True), ("1.2", False), ("2.0rc1", False), ("2.3", True), ("2.4", False)):
            assert bool(hits(told, needs("some-lib", version))) is affected, version
        assert hits(told, needs("other", "3.1.0")) == [("other 3.1.0", "PYSEC-2")]
        assert hits(told, needs("other", "3.1"), ignore=("CVE-2026-1",)) == []
        assert hits(told, needs("gone", "1.0"), needs("unknown", "1.0")) == []


def test_what_cannot_be_decided_counts_as_a_hit() -> None:
    told = read_advisories(json.dumps([osv("PYSEC-1", "lib", {"introduced": "0"}, {"fixed": "1.2"})]).encode())
    assert hits(told, needs("lib", "")) == [("lib", "no version of it is pinned")]
    assert hits(told, needs("lib", "no version")) == [("lib no version", "PYSEC-1")]


def test_an_audit_speaks_of_what_it_looked_at_and_of_nothing_else() -> None:
    audit = {
        "dependencies": [
            {"name": "lib", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.2"], "aliases": []}]},
            {"name": "fine", "version": "2.0", "vulns": []},
            {"name": "left", "skip_reason": "not on PyPI"},
        ]
    }
    told = read_advisories(json.dumps(audit).encode())
    assert hits(told, needs("lib", "1.0"), needs("fine", "2.0")) == [("lib 1.0", "PYSEC-1")]
    unseen = "the audit did not look at it"
    assert hits(told, needs("fine", "2.1"), needs("left", "1.0")) == [("fine 2.1", unseen), ("left 1.0", unseen)]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"no json", b"\xff", b"[1]", b'[{"id": "x"}]', b"[" * 100_000])
def test_any_other_file_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="none that is known"):
        read_advisories(content)
    if content != b"[]":
        with pytest.raises(Invalid, match="none that is known"):
            read_licences(content)


def test_licences_are_allowed_as_their_expression_says() -> None:
    rows = [
        {"Name": "a", "Version": "1", "License": "MIT"},
        {"Name": "b", "Version": "1", "License": "GPL-3.0-only OR (MIT AND Apache-2.0)"},
        {"Name": "c", "Version": "1", "License": "MIT AND GPL-3.0-only"},
        {"Name": "d", "Version": "1", "License": "MIT; GPL-3.0-only"},
        {"Name": "e", "Version": "1", "License": "MIT OR"},
        {"Name": "f", "Version": "1", "License": "(MIT"},
        {"Name": "g", "Version": "1", "License": "BSD License"},
    ]
    told = read_licences(json.dumps(rows).encode())
    packages = tuple(needs(name, "1") for name in "abcdefg")
    allowed = ("MIT", "apache-2.0", "BSD License")
    found = {one.package.split()[0] for one in unlicensed(packages, told, {}, allowed)}
    assert found == {"c", "d", "e", "f"}
    (unknown,) = unlicensed((needs("z", "1"),), told, {}, allowed)
    assert unknown.why == "its licence is not known"
    assert unlicensed((needs("z", "1"),), told, {needs("z", "1"): ("MIT",)}, allowed) == ()
    assert unlicensed((needs("a", "1"),), told, {needs("a", "1"): ("GPL-3.0-only",)}, allowed) == ()


def test_a_bill_of_materials_tells_licences_and_what_is_needed() -> None:
    bill = {
        "components": [
            {"name": "Lib", "version": "1.0", "purl": "pkg:pypi/Lib@1.0", "licenses": [{"license": {"id": "MIT"}}]},
            {"name": "other", "version": "2.0", "purl": "pkg:conda/other@2.0", "licenses": [{"expression": "BSD-3-Clause"}]},
            {"name": "python", "version": "3.12", "purl": "pkg:generic/python@3.12"},
        ]
    }
    assert [(one.name, one.version, one.licences) for one in needed(json.dumps(bill))] == [
        ("lib", "1.0", ("MIT",)),
        ("other", "2.0", ("BSD-3-Clause",)),
    ]
    told = read_licences(json.dumps(bill).encode())
    assert unlicensed((needs("lib", "1.0"),), told, {}, ("MIT",)) == ()
    assert needed("") == ()
