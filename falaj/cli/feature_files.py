"""A file that defines feature views: TOML or YAML for people."""

import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

from falaj.base.errors import Invalid
from falaj.cli.terminal import read_text
from falaj.cli.transfers import STANDARD
from falaj.client.feature_definitions import views_told
from falaj.datasets.operations.features import ApplyView

_YAML: Final = (".yaml", ".yml")


def views_in(file: str, project: str) -> list[ApplyView]:
    """Raises `Invalid` for what is misspelled, by its name and place."""
    folder = Path() if file == STANDARD else Path(file).parent
    return views_told(_read(file), project, what=file, folder=folder)


def _read(file: str) -> dict[str, Any]:
    text = read_text(file)
    try:
        told = yaml.safe_load(text) if Path(file).suffix.lower() in _YAML else tomllib.loads(text)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    if not isinstance(told, dict):
        raise Invalid(f"{file} says nothing: define views in it.")
    return told
