"""docs/client.md: what it shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

from tests.app.mortal import MortalPlatform, environment_of

TEXT = (Path(__file__).parents[2] / "docs" / "client.md").read_text()


def test_the_example_runs_as_it_stands(tmp_path: Path):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    platform = MortalPlatform(tmp_path / "home").start()
    try:
        environment = environment_of(FALAJ_URL=platform.url, FALAJ_TOKEN=platform.token)
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    finally:
        platform.close()
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "applicants.csv 10777 10777"
    assert second.startswith("applicants.csv home 20")
    assert third == f"The project has no blob {'0' * 32}."


def test_the_example_is_rightly_typed(tmp_path: Path):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "example.py")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout
