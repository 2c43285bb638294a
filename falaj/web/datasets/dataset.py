"""A dataset's page: its versions and tags, the columns of the current one, what is checked, and its lineage."""

from collections.abc import Sequence
from typing import Any, Final

from falaj.base.values import value
from falaj.datasets.operations.checks import Check
from falaj.datasets.operations.versions import LIST_VERSIONS, SHOW_VERSION, Finding, Version
from falaj.datasets.operations.words import CURRENT
from falaj.lineage.operations import SHOW_GRAPH
from falaj.web.experiments.run import names_of
from falaj.web.forms import checked
from falaj.web.models.version import drawn
from falaj.web.visits import Visit

MOST_VERSIONS: Final = 50
MOST_COLUMNS: Final = 200
DEPTH: Final = 6


@value
class Rule:
    """A check in words, and the newest version of which it did not hold, among those that are listed."""

    check: Check
    words: str
    version: Version | None = None
    finding: Finding | None = None


def itself(visit: Visit) -> dict[str, Any]:
    return {"project": visit.project, "dataset": visit.path["dataset"]}


def versions(visit: Visit) -> Any:
    asked = {"limit": MOST_VERSIONS, "cursor": visit.query.get("cursor", "")[:500]}
    return checked(LIST_VERSIONS, itself(visit) | asked)


def current(visit: Visit) -> Any:
    """None while there is none."""
    return checked(SHOW_VERSION, itself(visit) | {"version": CURRENT}) if visit.loaded["dataset"].current else None


def graph_around(name: str) -> Any:
    """The lineage around the version that was loaded under this name."""

    def asked(visit: Visit) -> Any:
        version = visit.loaded[name]
        if version is None:
            return None
        about = {"project": visit.project, "kind": "dataset", "id": version.lineage, "depth": DEPTH}
        return checked(SHOW_GRAPH, about)

    return asked


def story(visit: Visit) -> dict[str, Any]:
    version = visit.loaded["current"]
    listed = visit.loaded["versions"].items if visit.loaded["versions"] is not None else ()
    rules = visit.loaded["checks"].checks if visit.loaded["checks"] is not None else ()
    return {
        "columns": version.columns[:MOST_COLUMNS] if version is not None else (),
        "class_of": class_of(visit),
        "rules": [_rule(check, listed) for check in rules],
        "drawing": drawn(visit, version.lineage) if version is not None else "",
        "names": names_of(visit),
        "published": [one for one in listed if one.pruned is None],
    }


def class_of(visit: Visit) -> dict[str, str]:
    """The class of every column that has one."""
    found = visit.loaded["classes"]
    return {one.column: one.kind for one in found.columns} if found is not None else {}


def _rule(check: Check, listed: Sequence[Version]) -> Rule:
    for version in listed:
        for finding in version.findings:
            if finding.check == check.name:
                return Rule(check=check, words=words_of(check), version=version, finding=finding)
    return Rule(check=check, words=words_of(check))


def words_of(check: Check) -> str:
    """What it asks for, as a sentence without its end."""
    columns = ", ".join(check.columns)
    match check.kind:
        case "range":
            bounds = (("at least", check.least), ("at most", check.most))
            return f"{columns}: {' and '.join(f'{word} {bound}' for word, bound in bounds if bound is not None)}"
        case "set":
            some = ", ".join(str(one) for one in check.values[:10])
            return f"{columns}: one of {some}{' and more' if len(check.values) > 10 else ''}"
        case "unique":
            return f"{columns}: different in every row"
        case "nulls":
            return (
                f"{columns}: without a value in at most {check.share:.4g} of the rows"
                if check.share
                else f"{columns}: never null"
            )
        case "fresh":
            return f"{columns}: the newest is at most {check.seconds:,} seconds old"
        case "refers":
            return f"{columns}: found in {check.dataset} ({', '.join(check.references)})"
        case _:
            return check.sql
