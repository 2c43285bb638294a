"""What is known of packages: advisories and licences out of the files that scanners and lists have them in; and what that says
of what a version needs. Pure; nothing is asked on the network."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from packaging.version import InvalidVersion, Version

from falaj.base.errors import Invalid
from falaj.base.values import value

EVERY: Final = "*"  # instead of a package: what holds for all of them
_LONGEST: Final = 300
_MOST_PACKAGES: Final = 200_000
_UNREADABLE: Final = ("?",)
_ODD_FILE: Final = (
    "This file is none that is known: give advisories as OSV or pip-audit write them, licences as pip-licenses or CycloneDX "
    "do, all as JSON."
)


@value
class Needed:
    """A package that a version says it needs; `version` is empty where none is pinned. `licences` are what its bill of
    materials says itself."""

    name: str
    version: str
    licences: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name} {self.version}".strip()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()[:200]


def needed(bill: str) -> tuple[Needed, ...]:
    """The packages of a bill of materials."""
    document = json.loads(bill) if bill else {}
    found = {}
    for one in document.get("components", ()):
        ecosystem = re.match(r"pkg:(pypi|conda)/([^@#?]+)", str(one.get("purl", "")))
        if ecosystem is not None:
            name, version = normal(unquote(ecosystem[2])), str(one.get("version", ""))
            found[name, version] = Needed(name=name, version=version, licences=tuple(_stated(one)))
    return tuple(found[key] for key in sorted(found))


# Reading files


def read_advisories(content: bytes) -> dict[str, str]:
    """By package, as it is kept: advisories, and, of an audit, the versions that were looked at."""
    document = _parsed(content)
    if isinstance(document, dict) and isinstance(document.get("dependencies"), list):
        told = _of_audit(document["dependencies"])
        told[EVERY] = {"whole": False}
    else:
        entries = document if isinstance(document, list) else [document]
        if not entries or not all(isinstance(one, dict) and "affected" in one and "id" in one for one in entries):
            raise Invalid(_ODD_FILE)
        told = _of_osv(entries)
        told[EVERY] = {"whole": True}
    return _written(told)


def read_licences(content: bytes) -> dict[str, str]:
    """By package and version the licences it has."""
    document = _parsed(content)
    told: dict[str, dict[str, Any]] = {}
    if isinstance(document, dict) and isinstance(document.get("components"), list):
        listed = [(str(one.get("name", "")), str(one.get("version", "")), list(_stated(one))) for one in document["components"]]
    elif isinstance(document, list) and all(isinstance(one, dict) and {"Name", "License"} <= one.keys() for one in document):
        listed = [(str(one["Name"]), str(one.get("Version", "")), str(one["License"]).split("; ")) for one in document]
    else:
        raise Invalid(_ODD_FILE)
    for name, version, licences in listed:
        if name and licences:
            told.setdefault(normal(name), {})[version] = [text[:_LONGEST] for text in licences]
    return _written(told)


def _parsed(content: bytes) -> Any:
    """One JSON document, or one to a line."""
    try:
        text = content.decode()
        if not text.strip():
            raise Invalid(_ODD_FILE)
        try:
            return json.loads(text)
        except ValueError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise Invalid(_ODD_FILE) from None


def _written(told: Mapping[str, Any]) -> dict[str, str]:
    if len(told) > _MOST_PACKAGES:
        raise Invalid(f"This file speaks of {len(told):,} packages; {_MOST_PACKAGES:,} are the most. Keep those that are used.")
    return {name: json.dumps(one, sort_keys=True) for name, one in told.items()}


def _of_osv(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for affected in _maps(entry.get("affected")):
            package = affected.get("package")
            if entry.get("withdrawn") or not isinstance(package, dict) or package.get("ecosystem") != "PyPI":
                continue
            ranges = [list(_events(one)) for one in _maps(affected.get("ranges")) if one.get("type") == "ECOSYSTEM"]
            advisory = {
                "id": str(entry["id"])[:_LONGEST],
                "aliases": [str(one)[:_LONGEST] for one in entry.get("aliases") or ()],
                "versions": [str(one) for one in affected.get("versions") or ()],
                "spans": [span for one in ranges for span in _spans(one)],
                "words": str(entry.get("summary", ""))[:_LONGEST],
            }
            told.setdefault(normal(str(package.get("name", ""))), {}).setdefault("advisories", []).append(advisory)
    return told


def _maps(given: Any) -> Iterator[Mapping[str, Any]]:
    yield from (one for one in given if isinstance(one, dict)) if isinstance(given, list) else ()


def _events(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((str(kind), str(version)) for event in _maps(one.get("events")) for kind, version in event.items())


def _spans(events: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, bool]]:
    """From where, up to where, and whether that one is still affected; an empty end is none."""
    begun: str | None = None
    for kind, version in events:
        if kind == "introduced":
            begun = version
        elif kind in ("fixed", "last_affected") and begun is not None:
            yield begun, version, kind == "last_affected"
            begun = None
    if begun is not None:
        yield begun, "", True


def _of_audit(dependencies: Sequence[Any]) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for one in dependencies:
        if not isinstance(one, dict) or "version" not in one:  # an audit says why it left one out; it is not known then
            continue
        mine = told.setdefault(normal(str(one.get("name", ""))), {"advisories": [], "audited": []})
        mine["audited"].append(str(one["version"]))
        mine["advisories"] += [
            {
                "id": str(found.get("id", ""))[:_LONGEST],
                "aliases": [str(alias)[:_LONGEST] for alias in found.get("aliases") or ()],
                "versions": [str(one["version"])],
                "spans": [],
                "words": str(found.get("description", ""))[:_LONGEST],
            }
            for found in _maps(one.get("vulns"))
        ]
    return told


def _stated(component: Mapping[str, Any]) -> Iterator[str]:
    """Licences as CycloneDX has them."""
    for one in _maps(component.get("licenses")):
        licence = one.get("license")
        named = licence.get("id") or licence.get("name") if isinstance(licence, dict) else one.get("expression")
        if isinstance(named, str) and named:
            yield named


# Judging


@value
class Hit:
    """A package with something known against it, or of which nothing is known."""

    package: str
    why: str


def vulnerable(packages: Sequence[Needed], told: Mapping[str, str], ignore: Collection[str]) -> tuple[Hit, ...]:
    """`told` has what is kept of these packages, and of `EVERY`. What cannot be decided counts as a hit."""
    whole = bool(json.loads(told.get(EVERY, "{}")).get("whole"))
    found = []
    for one in packages:
        known = json.loads(told[one.name]) if one.name in told else {}
        if not one.version:
            found.append(Hit(package=one.shown, why="no version of it is pinned"))
        elif not whole and one.version not in known.get("audited", ()):
            found.append(Hit(package=one.shown, why="the audit did not look at it"))
        found += [
            Hit(package=one.shown, why=advisory["id"])
            for advisory in known.get("advisories", ())
            if one.version and not {advisory["id"], *advisory["aliases"]} & set(ignore) and _is_affected(one.version, advisory)
        ]
    return tuple(found)


def _is_affected(version: str, advisory: Mapping[str, Any]) -> bool:
    if version in advisory["versions"]:
        return True
    try:
        mine = Version(version)
        return any(_lies_in(mine, *span) for span in advisory["spans"]) or any(
            mine == Version(one) for one in advisory["versions"]
        )
    except InvalidVersion:
        return True


def _lies_in(version: Version, begin: str, end: str, is_last: bool) -> bool:
    if begin != "0" and version < Version(begin):
        return False
    return not end or version < Version(end) or (is_last and version == Version(end))


def unlicensed(
    packages: Sequence[Needed], told: Mapping[str, str], installed: Mapping[Needed, Sequence[str]], allowed: Collection[str]
) -> tuple[Hit, ...]:
    """`installed` are licences of packages that are here in the very version. The operator's word comes first."""
    wanted = {one.casefold() for one in allowed}
    found = []
    for one in packages:
        known = json.loads(told[one.name]) if one.name in told else {}
        licences = known.get(one.version) or known.get("") or one.licences or installed.get(one) or ()
        if not licences:
            found.append(Hit(package=one.shown, why="its licence is not known"))
        elif not all(_is_allowed(text, wanted) for text in licences):
            found.append(Hit(package=one.shown, why=" and ".join(licences)[:_LONGEST]))
    return tuple(found)


def _is_allowed(expression: str, wanted: Collection[str]) -> bool:
    """Of an SPDX expression: one of what OR joins, all of what AND joins. What cannot be read is not allowed."""
    if expression.strip().casefold() in wanted:
        return True
    words = [one.strip() for one in re.split(r"(\(|\)|\bOR\b|\bAND\b)", expression) if one.strip()]
    allowed, rest = _any_of(words, wanted)
    return allowed and not rest


def _any_of(words: Sequence[str], wanted: Collection[str]) -> tuple[bool, Sequence[str]]:
    allowed, rest = _all_of(words, wanted)
    while rest[:1] == ["OR"]:
        other, rest = _all_of(rest[1:], wanted)
        allowed = allowed or other
    return allowed, rest


def _all_of(words: Sequence[str], wanted: Collection[str]) -> tuple[bool, Sequence[str]]:
    allowed, rest = _one_of(words, wanted)
    while rest[:1] == ["AND"]:
        other, rest = _one_of(rest[1:], wanted)
        allowed = allowed and other
    return allowed, rest


def _one_of(words: Sequence[str], wanted: Collection[str]) -> tuple[bool, Sequence[str]]:
    if words[:1] == ["("]:
        allowed, rest = _any_of(words[1:], wanted)
        return allowed and rest[:1] == [")"], rest[1:]
    if not words or words[0] in ("OR", "AND", ")"):
        return False, _UNREADABLE
    return words[0].casefold() in wanted, words[1:]
