"""The wheel: with nothing of the repository in reach, the platform starts from it and has everything it shows."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import falaj

ROOT = Path(__file__).parents[2]
WHERE = "import falaj, pathlib; print(pathlib.Path(falaj.__file__).parent)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(ROOT))
    (file,) = made.glob("falaj-*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", str(folder), str(wheel))
    return folder


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Everything that Falaj needs but Falaj: the repository is on the path of the tests' own interpreter.

    So that interpreter starts without its site folder (`-S`), which is put back as a plain folder: its `.pth` files, and with
    them the repository, then count for nothing.
    """
    (site,) = (folder for folder in sys.path if folder.startswith(sys.prefix) and folder.endswith("site-packages"))
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{installed}:{site}",
        "HOME": str(tmp_path_factory.mktemp("nobody")),
        "FALAJ_TEST_SESSION": os.environ["FALAJ_TEST_SESSION"],
    }


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def url(environment: dict[str, str], nowhere: Path, tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-S", "-m", "falaj.cli.main", "up", "--home", str(tmp_path / "home"), "--port", "0", "--json"]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(command, env=environment, cwd=nowhere, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    announced = process.stdout.readline()
    try:
        assert announced, (tmp_path / "errors").read_text()
        yield str(json.loads(announced)["url"])
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_repository_is_out_of_reach(environment: dict[str, str], nowhere: Path, installed: Path):
    command = [sys.executable, "-S", "-c", WHERE]
    done = subprocess.run(command, env=environment, cwd=nowhere, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(installed / "falaj")
    command[-1] = "import importlib.util; print(importlib.util.find_spec('tests'))"
    done = subprocess.run(command, env=environment, cwd=nowhere, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


def test_the_platform_starts_from_the_wheel_and_shows_its_pages(url: str):
    with httpx.Client(base_url=url, trust_env=False) as http:
        assert http.get("/healthz").json()["status"] == "ok"
        deadline = time.monotonic() + 20
        while http.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
        page = http.get("/sign-in")
        assert page.status_code == 200
        assets = re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.text)
        assert {asset.rpartition(".")[2] for asset in assets} >= {"css", "js", "svg"}
        for asset in assets:
            assert len(http.get(asset).content) > 100


def test_the_wheel_carries_every_file_of_the_package_and_nothing_else(installed: Path):
    assert files_of(installed) == files_of(ROOT)
    assert {each.name for each in installed.iterdir()} == {"bin", "falaj", f"falaj-{falaj.__version__}.dist-info"}


def files_of(folder: Path) -> set[str]:
    files = (file for file in (folder / "falaj").rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {str(file.relative_to(folder)) for file in files}
