"""docs/capabilities.md: a row for every requirement, and nothing in it that does not exist."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from falaj.api.openapi import url_of
from falaj.app.platform import OPERATIONS
from falaj.cli.main import application
from falaj.web.sitemap import PAGES
from scripts.write_reference import leaves

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split(" | ")]
    for line in (ROOT / "docs" / "capabilities.md").read_text().splitlines()
    if re.match(r"\| R\d", line)
]
MET = [row for row in ROWS if row[2] != "not yet"]
COMMANDS = {" ".join(path) for path, _ in leaves(typer.main.get_command(application), ("falaj",))}
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
ADDRESSES = {f"{operation.method} {url_of(operation)}" for operation in OPERATIONS}
PATHS = {page.path for page in PAGES}


def test_every_requirement_has_exactly_one_row():
    assert [row[0] for row in ROWS] == [f"R{number}" for number in range(1, 61)]


def test_the_sums_on_top_are_those_of_the_rows():
    states = [row[2] for row in ROWS]
    works, partly, missing = (states.count(state) for state in ("works", "partly", "not yet"))
    said = f"{works} of sixty work, {partly} work in part, {missing} do not exist yet."
    assert said in (ROOT / "docs" / "capabilities.md").read_text()


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_says_what_works_where_and_by_which_test_or_that_nothing_does(row: list[str]):
    _, requirement, state, today, where, proof = row
    assert requirement
    assert state in ("works", "partly", "not yet")
    if state == "not yet":
        assert (where, proof) == ("-", "-")
    else:
        assert today != "-"
        assert "`" in where
        assert "::" in proof


@pytest.mark.parametrize("row", MET, ids=[row[0] for row in MET])
def test_every_test_that_is_named_exists(row: list[str]):
    for file, name in re.findall(r"`([^`]+)::([^`]+)`", row[5]):
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("row", MET, ids=[row[0] for row in MET])
def test_every_command_page_and_address_that_is_named_exists(row: list[str]):
    for named in re.findall(r"`([^`]+)`", row[4]):
        if named.startswith("falaj "):
            assert named in COMMANDS
        elif named.startswith("make "):
            assert named.removeprefix("make ") in TARGETS
        elif named.startswith("/"):
            assert named in PATHS
        elif named.startswith("falaj."):
            assert find_spec(named) is not None
        else:
            assert named in ADDRESSES
