"""The files of a new project, as they lie in the package: filled in, and written where nothing is yet."""

import importlib.metadata
import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, TypeAlias

from falaj.base.errors import Conflict, Invalid

Sort: TypeAlias = Literal["tabular", "image"]
_WHERE: Final = {
    "test_steps.py": "tests/test_steps.py",
    "conftest.py": "conftest.py",
    "falaj.yml": ".github/workflows/falaj.yml",
}
_FILLED: Final[dict[Sort, dict[str, str]]] = {
    "tabular": {"label": "water", "least": "0.85"},
    "image": {"label": "digit", "least": "0.85"},
}
_PACKAGES: Final = ("numpy", "onnx", "onnxruntime", "optuna", "pandas", "pytest", "scikit-learn", "skl2onnx")
_ENDING: Final = ".txt"


def written(folder: Path, sort: Sort) -> tuple[list[str], list[str]]:
    """The names of the files, and of packages that are not installed here. Raises `Conflict` where one of the files is there
    already, and writes none then."""
    name = _name_of(folder)
    made = {_WHERE.get(one, one): _filled(text, {"name": name, **_FILLED[sort]}) for one, text in _texts(sort).items()}
    versions = _versions()
    # One that is not here stands without a version: whoever installs from the lock has all that tests and steps need.
    made["requirements.lock"] = "".join(f"{one}=={version}\n" if version else f"{one}\n" for one, version in versions.items())
    made[".falajignore"] = "requirements.lock\nREADME.md\nrun.json\ngates.xml\n"  # the last two a CI system writes
    there = [one for one in sorted(made) if (folder / one).exists()]
    if there:
        raise Conflict(f"{folder} has {', '.join(there[:3])} already; name a folder that is new, or empty.")
    for one, text in made.items():
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).write_text(text, encoding="utf-8")
    return sorted(made), [package for package, version in versions.items() if not version]


def _name_of(folder: Path) -> str:
    """What its model, its endpoint and its pipeline are called."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,60}", name):
        raise Invalid(f"The folder gives the project its name: {folder.resolve().name!r} has to begin with a letter.")
    return name


def _texts(sort: Sort) -> dict[str, str]:
    here = files("falaj.cli").joinpath("projects")
    return {
        one.name.removesuffix(_ENDING): one.read_text(encoding="utf-8")
        for part in ("common", sort)
        for one in here.joinpath(part).iterdir()
        if one.name.endswith(_ENDING)
    }


def _filled(text: str, given: dict[str, str]) -> str:
    for name, one in given.items():
        text = text.replace("{{" + name + "}}", one)
    return text


def _versions() -> dict[str, str]:
    """Of what is installed here, which is what steps without a lock of their own run with; empty where one is not."""
    found = dict.fromkeys(_PACKAGES, "")
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
