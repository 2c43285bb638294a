"""What options of Spark's readers and writers say of a dataset."""

from collections.abc import Mapping
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.environments import project_of_environment

_OPTIONS: Final = ("dataset", "path", "project", "columns", "keys", "evolve", "timeZone", "origin")


@value
class Asked:
    """`version` is a number, a tag, or `current`."""

    project: str
    dataset: str
    version: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    evolve: bool
    time_zone: str
    origin: str


def asked_by(given: Mapping[str, str]) -> Asked:
    """Raises `Invalid` for options that there are none of. Spark does not tell their cases apart."""
    options = {name.lower(): text for name, text in given.items()}
    if unknown := sorted(set(options) - {name.lower() for name in _OPTIONS}):
        raise Invalid(f"There is no option {', '.join(unknown)}. There are {', '.join(_OPTIONS)}.")
    reference = options.get("dataset", "") or options.get("path", "")
    if not reference:
        raise Invalid('Which dataset? Say .option("dataset", "sales@7").')
    dataset, _, version = reference.partition("@")
    return Asked(
        project=project_of_environment(options.get("project", "")),
        dataset=dataset,
        version=version or "current",
        columns=_listed(options.get("columns", "")),
        keys=_listed(options.get("keys", "")),
        evolve=options.get("evolve", "").lower() == "true",
        time_zone=options.get("timezone", ""),
        origin=options.get("origin", "spark"),
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
