"""Artifact locations below `mlflow-artifacts:/`: whose files they are, and their name there.

EXPERIMENT/RUN/artifacts/...               a run's
EXPERIMENT/models/MODEL_ID/artifacts/...   a logged model's
models/VERSION_ID/...                      a registered version's
"""

import re
from typing import Final
from urllib.parse import unquote

from falaj.base.errors import Invalid, NotFound
from falaj.base.values import value
from falaj.tracking.operations.artifacts import ARTIFACT_PATTERN

LONGEST: Final = 1000
_NAME: Final = re.compile(ARTIFACT_PATTERN)
_ID: Final = re.compile(r"[0-9a-f]{32}")
_MODEL_ID: Final = re.compile(r"m-[0-9a-f]{32}")


@value
class Held:
    """Files of a run or a logged model; `name` is empty for all of them."""

    holder: str
    name: str


@value
class Snapshot:
    """Files of a registered version."""

    version: str
    name: str


def location_of(parts: tuple[str, ...]) -> Held | Snapshot:
    """From the parts of a path, each decoded once."""
    match tuple(part for part in parts if part):
        case (experiment, "models", model, "artifacts", *rest) if experiment.isdigit() and _MODEL_ID.fullmatch(model):
            return Held(holder=model, name=name_of(rest))
        case (experiment, run, "artifacts", *rest) if experiment.isdigit() and _ID.fullmatch(run):
            return Held(holder=run, name=name_of(rest))
        case ("models", version, *rest) if _ID.fullmatch(version):
            return Snapshot(version=version, name=name_of(rest))
    raise NotFound("There are no artifacts at this place: ask the run or the model for its artifact location.")


def location_in(path: str) -> Held | Snapshot:
    return location_of(tuple(path.split("/")))


def name_of(parts: list[str]) -> str:
    """A relative name that stays below its holder, however it is encoded."""
    for part in parts:
        plain = part
        for _ in range(10):
            if plain in (".", "..") or "/" in plain or "\\" in plain:
                raise Invalid("An artifact's name must stay below its run: no '..', no backslash, no encoded slash.")
            if (decoded := unquote(plain)) == plain:
                break
            plain = decoded
    name = "/".join(parts)
    if name and (len(name) > LONGEST or not _NAME.fullmatch(name)):
        raise Invalid(f"An artifact's name has up to {LONGEST} characters, none of them a control character.")
    return name
