"""Checks of datasets at the terminal: read from a file, told where they are broken."""

import json
import tomllib
from typing import Any

from pydantic import TypeAdapter, ValidationError

from falaj.base.errors import Conflict, Invalid
from falaj.cli.dataset_classes import tell_hints
from falaj.cli.layout import Layout, sentence
from falaj.cli.terminal import Terminal, read_text
from falaj.datasets.operations import checks, versions
from falaj.wire.wording import in_words


def checks_in(file: str) -> tuple[checks.Check, ...]:
    """Of a TOML file with `[[checks]]`, or the same as JSON. Raises `Invalid`."""
    told = _document(file)
    listed = told.get("checks") if isinstance(told, dict) else told
    if not isinstance(listed, list):
        raise Invalid(f"{file} declares no checks: it needs [[checks]] with a name and a kind each.")
    try:
        found: tuple[checks.Check, ...] = TypeAdapter(tuple[checks.Check, ...]).validate_json(json.dumps(listed, default=str))
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        place, *field = first["loc"]
        says = in_words(first) or first["msg"]
        raise Invalid(f"{file}: check {int(place) + 1}: {'.'.join(map(str, field))} {says}.") from None
    return found


def _document(file: str) -> Any:
    text = read_text(file)
    try:
        return json.loads(text)
    except ValueError:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Invalid(f"{file} is neither JSON nor TOML: {error}.") from None


def show_made(terminal: Terminal, project: str, version: versions.Version, words: str) -> None:
    """Say what a write made, and warn of what was found. Raises `Conflict` where the version is in quarantine, after the rows
    that put it there were shown."""
    if terminal.as_json or not version.quarantined:
        terminal.show(version, sentence(lambda _: words))
    if version.pruned is None and (not version.parent or version.mode == "overwrite"):  # its columns are new
        tell_hints(terminal, project, version)
    for found in version.findings:
        if found.severity == "warn":
            terminal.say(f"Warning: {_said(found)}.")
    if not version.quarantined:
        return
    name = f"{version.dataset}@{version.version}"
    if version.pruned is not None:
        raise Conflict(f"{name} was in quarantine, and is decided; say --again to import it once more.")
    if not terminal.as_json:
        asked = versions.OneVersion(project=project, dataset=version.dataset, version=str(version.version))
        terminal.show(terminal.call(checks.SHOW_FINDINGS, asked), outcome)
    raise Conflict(
        f"{name} is in quarantine, and what was current stays so: {_broken(version.findings)}. "
        "Release it, drop it, or import it mended."
    )


def outcome(layout: Layout, found: checks.Checked) -> None:
    """What checks found of a version, and rows that broke them."""
    rows = ([one.finding.check, _verdict(one), one.finding.rows, one.finding.says] for one in found.outcomes)
    layout.table(["check", "", "rows", "what must hold"], rows)
    for one in found.outcomes:
        if one.detail:
            layout.line()
            layout.line(f"{one.finding.check}: {one.detail}")
        if one.examples:
            layout.line()
            layout.line(f"Rows that break {one.finding.check}:")
            layout.table([], one.examples, named=[column.name for column in one.columns])


def declared(layout: Layout, found: checks.Checks) -> None:
    empty = checks.Check(name="none", kind="sql")
    told = ("columns", "least", "most", "values", "share", "seconds", "dataset", "references", "sql")

    def rest(check: checks.Check) -> str:
        said = [(name, getattr(check, name)) for name in told if getattr(check, name) != getattr(empty, name)]
        return ", ".join(f"{name} {', '.join(map(str, one)) if isinstance(one, tuple) else one}" for name, one in said)

    layout.table(["check", "kind", "severity", "rule"], ([one.name, one.kind, one.severity, rest(one)] for one in found.checks))


def refuse_broken(found: checks.Checked) -> None:
    """So that the command fails where the version does."""
    if not found.passed:
        broken = [one.finding for one in found.outcomes if one.broken and one.finding.severity == "fail"]
        raise Conflict(f"{found.dataset}@{found.version} breaks {len(broken)} of its checks: {_broken(tuple(broken))}.")


def _verdict(one: checks.Outcome) -> str:
    return "holds" if not one.broken else "broken" if one.finding.severity == "fail" else "warning"


def _broken(findings: tuple[versions.Finding, ...]) -> str:
    return "; ".join(_said(one) for one in findings if one.severity == "fail")


def _said(one: versions.Finding) -> str:
    rows = f" ({one.rows:,} row{'s' if one.rows != 1 else ''})" if one.rows else ""
    return f"{one.check}: {one.says}{rows}"
