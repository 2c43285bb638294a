"""Help: every command explains itself, at once."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from falaj.cli.main import SECTIONS, TABLE, application, run
from tests.cli.conftest import COMMAND, Falaj

HEAVY = (
    "pydantic",
    "httpx",
    "sqlalchemy",
    "alembic",
    "rich",
    "cryptography",
    "uvicorn",
    "starlette",
    "cedarpy",
    "jinja2",
    "asyncio",
)
SERVER_SIDE = (
    "sqlalchemy",
    "alembic",
    "uvicorn",
    "starlette",
    "cedarpy",
    "cryptography",
    "jwt",
    "obstore",
    "falaj.api",
    "falaj.database",
    "falaj.web",
)


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below, groups included."""
    yield path, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from walk(command.get_command(None, name), (*path, name))


TREE = list(walk(typer.main.get_command(application), ()))
LEAVES = [(path, command) for path, command in TREE if not hasattr(command, "list_commands")]


def test_help_imports_nothing_heavy():
    program = (
        "import sys\nfrom falaj.cli.main import run\nassert run(['--help']) == 0\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in TABLE)


def test_the_help_of_no_command_imports_what_only_the_platform_itself_needs():
    lines = [[*path, "--help"] for path, _ in TREE]
    program = (
        f"import sys\nfrom falaj.cli.main import run\nassert not any(run(line) for line in {lines})\n"
        f"print([name for name in {SERVER_SIDE} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert done.stdout.count("Usage: falaj") == len(TREE)


def test_the_platform_is_loaded_without_what_few_starts_need():
    """Migrating, an identity provider and a terminal's colours: whoever needs them waits for them."""
    program = (
        "import sys\nimport falaj.cli.commands.up\nimport falaj.app.up\n"
        "print([name for name in ('alembic', 'mako', 'httpx', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_takes_less_than_four_tenths_of_a_second():
    def once() -> float:
        started = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], capture_output=True, check=True)
        return time.perf_counter() - started

    assert min(once() for _ in range(5)) < 0.4


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_takes_json_and_home_and_shows_an_example_of_itself(path, command):
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--home"} <= options
    assert command.help
    example = re.search(r"^Example: (.+)$", command.help, re.MULTILINE)
    assert example is not None, "there is no example"
    assert example[1].startswith(f"falaj {' '.join(path)}")
    undescribed = [parameter.name for parameter in command.params if parameter.name != "help" and not parameter.help]
    assert not undescribed


def test_every_example_can_be_parsed():
    for path, command in LEAVES:
        example = re.search(r"^Example: falaj (.+)$", command.help, re.MULTILINE)
        words = re.findall(r'"[^"]*"|\S+', re.split(r" [|>]", example[1])[0])[len(path) :]
        context = command.make_context(" ".join(path), [word.strip('"') for word in words])
        assert context.args == [], f"{example[0]}: words that mean nothing"


@pytest.mark.parametrize("path", [path for path, command in TREE if hasattr(command, "list_commands")])
def test_no_command_is_summed_up_by_half_a_sentence(path, capsys):
    assert run([*path, "--help"]) == 0
    assert not re.search(r"e\.g\.$", capsys.readouterr().out, re.MULTILINE)


def test_the_table_says_of_each_command_what_it_is_and_names_each_once():
    names = [name for section in SECTIONS.values() for name in section]
    assert len(names) == len(set(names))
    assert all(told.endswith(".") for _, told in TABLE.values())


def test_a_group_without_a_command_shows_its_help_and_fails_as_asked_wrongly(falaj: Falaj):
    output, error = falaj.both("project", status=2)
    assert output == ""
    assert error.startswith("Usage: falaj project")
    assert "create" in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("projct",), "No such command 'projct'"),
        (("project", "creat"), "Did you mean 'create'"),
        (("project", "show"), "Missing argument"),
        (("project", "list", "--limit", "0"), "--limit"),
        (("project", "list", "--limit", "many"), "--limit"),
        (("version", "--unknown"), "--unknown"),
        (("up", "--profile", "lax"), "--profile"),
        (("up", "--port", "70000"), "--port"),
    ],
)
def test_what_was_typed_wrongly_is_told_in_one_line_with_the_way_to_the_help(falaj: Falaj, arguments, told):
    line = falaj.fails(*arguments, status=2)
    assert told in line
    assert "--help" in line


def test_version_is_told_to_people_and_to_programs(falaj: Falaj):
    assert re.fullmatch(r"falaj \d+\.\d+\.\d+ \(Python 3\.\d+\.\d+\)\n", falaj("version"))
    assert set(falaj.json("version")) == {"version", "python"}
