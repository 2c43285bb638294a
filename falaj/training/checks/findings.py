"""What checks found, in sentences with numbers in them, and insisting on it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from falaj.base.errors import Invalid, PermanentError
from falaj.base.values import value
from falaj.training.run_files import opened
from falaj.training.telling import Run

Severity = Literal["fine", "note", "warning", "problem"]
_ORDER: Final[Sequence[Severity]] = ("fine", "note", "warning", "problem")
FILE: Final = "checks.json"
UNCHECKED: Final = "nothing was checked: give `check` a `test` or a `reference` to hold the rows against"


class ChecksFailed(PermanentError):
    """A check that was insisted on did not pass. `findings` are the reasons."""

    def __init__(self, findings: Sequence["Finding"]) -> None:
        super().__init__("; ".join(f"{one.check}: {one.sentence}" for one in findings))
        self.findings = tuple(findings)


@value
class Finding:
    """Of one check, such as `leakage.duplicates`. `fine`: it was looked for and not found. `details` are for the file."""

    check: str
    severity: Severity
    sentence: str
    figures: Mapping[str, float]
    column: str = ""
    details: tuple[Mapping[str, object], ...] = ()

    def at_least(self, severity: Severity) -> bool:
        return _ORDER.index(self.severity) >= _ORDER.index(severity)


@value
class Findings:
    """Of all checks, in the order in which they were made."""

    all: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.all)

    def of(self, check: str) -> tuple[Finding, ...]:
        """`leakage`, or `leakage.time` alone."""
        return tuple(one for one in self.all if one.check == check or one.check.startswith(f"{check}."))

    @property
    def worst(self) -> Severity:
        return max((one.severity for one in self.all), key=_ORDER.index, default="fine")

    def must_pass(self, *checks: str, at: Severity = "problem") -> None:
        """Raise `ChecksFailed` where one of these, or of all, found a problem, or anything at least as severe as `at`.

        What was not checked does not pass: a gate that nobody went through is not open.
        """
        asked = [one for one in self.all if not checks or any(one in self.of(check) for check in checks)]
        if failed := [one for one in asked if one.at_least(at)]:
            raise ChecksFailed(failed)
        if missing := [check for check in checks if not self.of(check)] or (["anything"] if not self.all else []):
            made = ", ".join(dict.fromkeys(one.check for one in self.all)) or "none"
            raise Invalid(
                f"{', '.join(missing)} was not checked and cannot pass; checked were {made}: give `check` what it needs for it"
            )

    def sentences(self, at: Severity = "note") -> list[str]:
        """The worst first."""
        told = sorted((one for one in self.all if one.at_least(at)), key=lambda one: -_ORDER.index(one.severity))
        return [f"{one.severity}: {one.sentence}" for one in told]

    def explain(self) -> str:
        return "\n".join(self.sentences("fine")) or UNCHECKED

    def as_document(self) -> dict[str, Any]:
        fields = ("check", "severity", "sentence", "column")
        found = [
            {name: getattr(one, name) for name in fields}
            | {"figures": dict(one.figures), "details": [dict(row) for row in one.details]}
            for one in self.all
        ]
        return {"version": 1, "worst": self.worst, "findings": found}

    def record(self, run: Run | None = None) -> None:
        """On the page of the job's run, or of `run`."""
        with opened(run) as (own, folder):
            figures = {
                _name(one.check, one.column, name): figure for one in self.all for name, figure in sorted(one.figures.items())
            }
            own.figures(figures | {"falaj.checks/problems": len([one for one in self.all if one.severity == "problem"])})
            told = "\n".join(self.sentences()) or ("nothing stands out" if self.all else UNCHECKED)
            own.words({"falaj.training.checks": told, "falaj.training.checks.worst": self.worst})
            file = folder / FILE
            file.write_text(json.dumps(self.as_document(), indent=1))
            own.file(file, FILE)


def _name(*parts: str) -> str:
    """As trackers allow it: letters, digits and a few marks."""
    return "/".join(["falaj.checks", *(re.sub(r"[^A-Za-z0-9_. -]", "_", part)[:80] for part in parts if part)])
