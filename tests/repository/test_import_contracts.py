"""The rooms are lint: breaking a contract on purpose fails `make check`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    copy = tmp_path_factory.mktemp("contracts")
    shutil.copytree(ROOT / "falaj", copy / "falaj", ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def lint(folder):
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run([program, "--no-cache"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_contracts_hold(pristine):
    result = lint(pristine)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line", "named"),
    [
        ("falaj/base/ids.py", "import falaj.database.work", "Imports point downward"),
        ("falaj/base/ids.py", "import pydantic", "base needs the standard library only"),
        ("falaj/keys/operations.py", "import sqlalchemy", "Declarations of operations"),
        ("falaj/keys/operations.py", "import falaj.keys.store", "Declarations of operations"),
        ("falaj/keys/errors.py", "import obstore", "A vendor's SDK has one home"),
        ("falaj/keys/errors.py", "import sqlalchemy", "SQL lives in"),
        ("falaj/keys/errors.py", "import pytest", "Test libraries"),
        ("falaj/attic/__init__.py", "", "Imports point downward"),
    ],
)
def test_breaking_a_contract_on_purpose_fails_and_names_it(pristine, tmp_path, module, line, named):
    broken = tmp_path / "broken"
    shutil.copytree(pristine, broken)
    target = broken / module
    target.parent.mkdir(exist_ok=True)
    with target.open("a") as file:
        file.write(f"\n{line}\n")
    result = lint(broken)
    assert result.returncode == 1
    assert named in result.stdout.partition("Broken contracts")[2]
