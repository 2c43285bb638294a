"""The documents that are written from the code, and those that must name all of it."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from falaj.app.settings import PoolSettings, Settings, StorageSettings
from scripts.write_reference import DOCS, WRITTEN


@pytest.mark.parametrize("file", WRITTEN)
def test_the_written_document_is_fresh(file: str):
    assert (DOCS / file).read_text() == WRITTEN[file](), "run: .venv/bin/python scripts/write_reference.py"


def settings() -> dict[str, str]:
    """Every setting with its default as TOML writes it."""
    sections: dict[str, Any] = {field.name: getattr(Settings(), field.name) for field in dataclasses.fields(Settings)}
    sections |= {"storage": StorageSettings(), "jobs.pools": PoolSettings()}
    return {
        f"{section}.{field.name}": json.dumps(getattr(chosen, field.name))
        for section, chosen in sections.items()
        for field in dataclasses.fields(chosen)
        if f"{section}.{field.name}" not in sections
    }


def test_every_setting_is_described_with_its_default_and_nothing_else_is():
    rows = re.findall(r"^\| `([a-z_.]+)` \| `([^`]*)` \| (.+) \|$", (DOCS / "settings.md").read_text(), re.MULTILINE)
    assert {name: default for name, default, _ in rows} == settings()
    assert len(rows) == len(settings())


def links() -> list[tuple[str, str]]:
    files = [*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")]
    return [
        (str(file.relative_to(DOCS.parent)), link)
        for file in files
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", file.read_text())
        if "://" not in link
    ]


@pytest.mark.parametrize(("file", "link"), links())
def test_every_link_between_documents_leads_somewhere(file: str, link: str):
    assert (DOCS.parent / file).parent.joinpath(Path(link)).exists()
