"""Starting and stopping, and what survives it."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import falaj as falaj_package
from falaj.app.home import read_document
from falaj.governance.gate import TOKEN_PREFIX
from tests.cli.conftest import COMMAND, Falaj, Running

# What mlflow's client asks first, with what it reads from the environment.
ASKS = """
import ssl, httpx
place = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/experiments/search?max_results=1"
trusted = ssl.create_default_context(cafile=os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"))
token = {"authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
print(httpx.get(place, headers=token, verify=trusted, trust_env=False).status_code)
"""


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path: Path, ending: signal.Signals):
    running = Running(tmp_path / "home", tmp_path / "config")
    assert running.announced["first_start"] is True
    assert Path(running.announced["recovery_kit"]).exists()
    assert running.stop(ending) == 0
    assert not (running.home / "server.json").exists()
    assert not (running.home / "falaj.db-wal").exists(), "the database was not closed"


def test_a_second_start_on_the_same_home_is_refused(platform: Running):
    assert "falaj down" in platform.fails("up", "--port", "0")
    assert "already" in platform.fails("up", "--port", "0", "--detach")


def test_a_port_that_is_taken_is_told(platform: Running, falaj: Falaj):
    assert "--port" in falaj.fails("up", "--port", platform.url.rpartition(":")[2])


def test_detached_it_outlives_the_command_and_down_ends_it(falaj: Falaj):
    told = falaj.json("up", "--detach", "--port", "0")
    try:
        assert told["console"].startswith(f"{told['url']}/sign-in?code=")
        assert falaj.json("status")["url"] == told["url"]
    finally:
        assert falaj("down") == "Stopped.\n"
    assert falaj.json("down") == {"was_running": False}
    assert "No platform runs" in falaj("down")


@pytest.mark.parametrize("options", [(), ("--tls", "self-signed")])
def test_its_two_lines_work_in_a_notebook_as_they_stand_and_no_token_is_shown(
    falaj: Falaj, tmp_path: Path, options: tuple[str, ...]
):
    said = falaj("up", "--detach", "--port", "0", *options)
    try:
        lines = said.splitlines()
        first = lines.index("In a notebook, so that mlflow finds it:") + 1
        kernel = {name: text for name, text in falaj.environment.items() if not name.startswith("FALAJ_")}
        cell = "\n".join([*lines[first : first + 2], ASKS])
        done = subprocess.run(
            [sys.executable, "-c", cell], cwd=tmp_path, env=kernel, capture_output=True, text=True, check=False
        )
    finally:
        falaj("down")
    assert (done.stdout, done.stderr) == ("200\n", "")
    assert TOKEN_PREFIX not in said


def test_a_home_that_falaj_does_not_look_in_by_itself_is_told_with_what_to_set(falaj: Falaj, tmp_path: Path):
    other = str(tmp_path / "elsewhere")
    said = falaj("up", "--detach", "--port", "0", "--home", other)
    try:
        assert f"export FALAJ_HOME={other}\n" in said
        found = falaj("status", FALAJ_HOME=other)
    finally:
        falaj("down", "--home", other)
    assert "is ready at" in found
    try:
        assert "FALAJ_HOME=" not in falaj("up", "--detach", "--port", "0")
    finally:
        falaj("down")


def test_detached_it_is_the_falaj_that_is_installed_whatever_lies_where_it_is_started(falaj: Falaj, tmp_path: Path):
    (tmp_path / "falaj").mkdir()
    (tmp_path / "falaj" / "__init__.py").write_text("raise SystemExit('another Falaj')")
    started = [sys.executable, "-P", *COMMAND[1:], "up", "--detach", "--port", "0"]
    subprocess.run(started, cwd=tmp_path, env=falaj.environment, check=True, capture_output=True)
    assert falaj("down") == "Stopped.\n"


def test_a_detached_start_that_fails_says_why(falaj: Falaj, platform: Running):
    assert "--port" in falaj.fails("up", "--detach", "--port", platform.url.rpartition(":")[2])


def test_to_serve_other_machines_a_team_is_told_of_the_option_for_tls_and_each_thing_once(falaj: Falaj):
    arguments = ("up", "--profile", "team", "--host", "0.0.0.0", "--port", "0")
    for line in (falaj.fails(*arguments), falaj.fails(*arguments, "--detach")):
        assert "--tls self-signed" in line
        assert "policy explain" not in line, "it knows nothing of this rule"
        assert line.count("falaj:") == 1
        assert line.count("profile.tls") == 1


def test_the_profile_is_chosen_once_and_not_changed_by_a_forgotten_option(tmp_path: Path):
    running = Running(tmp_path / "home", tmp_path / "config", "--profile", "team")
    try:
        assert running.json("status")["platform"]["profile"] == "team"
    finally:
        running.stop()
    assert "edit profile" in running.fails("up", "--profile", "solo")
    again = Running(tmp_path / "home", tmp_path / "config")
    try:
        assert again.json("status")["platform"]["profile"] == "team"
    finally:
        again.stop()


def test_under_its_own_certificate_it_is_trusted_by_the_commands_of_its_home_alone(tmp_path: Path, falaj: Falaj):
    running = Running(tmp_path / "tls", tmp_path / "config", "--tls", "self-signed")
    try:
        assert running.url.startswith("https://")
        assert running.json("whoami")["platform_roles"] == ["admin"]
        token = read_document(running.home / "credentials.json")["token"]
        assert "certificate" in falaj.fails("whoami", FALAJ_URL=running.url, FALAJ_TOKEN=token).lower()
        assert all(check["state"] != "broken" for check in running.json("doctor")["checks"])
    finally:
        running.stop()


def test_settings_that_are_wrong_are_asked_wrongly(falaj: Falaj):
    falaj.home.mkdir()
    (falaj.home / "falaj.toml").write_text("[server]\nport = 'many'\n")
    assert "server.port" in falaj.fails("up", status=2)


def test_a_lost_key_ring_is_recovered_with_the_kit(tmp_path: Path):
    running = Running(tmp_path / "home", tmp_path / "config")
    kit = tmp_path / "kit.txt"
    kit.write_text(running("key", "kit"))
    assert running.json("key", "kit", "--delete", "--yes")["file"] == running.announced["recovery_kit"]
    assert "put away" in running.fails("key", "kit")
    blob = running.json("blob", "put", "default", "-", input="sealed water")["id"]
    running.stop()
    subprocess.run(["rm", "-r", f"{running.home}.keys"], check=True)
    assert "falaj key recover" in running.fails("up", "--port", "0")
    (tmp_path / "wrong.txt").write_text(kit.read_text().replace("FALAJ1-", "FALAJ1-AAAA-"))
    running.fails("key", "recover", "--kit", str(tmp_path / "wrong.txt"), status=2)
    assert running.json("key", "recover", "--kit", str(kit))["directory"] == f"{running.home}.keys"
    again = Running(tmp_path / "home", tmp_path / "config")
    try:
        assert again("blob", "get", "default", blob, "-") == "sealed water"
    finally:
        again.stop()


def test_a_newer_release_wants_an_upgrade_which_backs_up_first_and_the_older_one_is_told_so(tmp_path: Path):
    running = Running(tmp_path / "home", tmp_path / "config")
    blob = running.json("blob", "put", "default", "-", input="water")["id"]
    newer = tmp_path / "newer"
    shutil.copytree(Path(falaj_package.__file__).parent, newer / "falaj", ignore=shutil.ignore_patterns("__pycache__"))
    history = newer / "falaj" / "database" / "history" / "versions"
    newest = running.json("upgrade")["after"]
    (history / "9999_later.py").write_text(
        f"import sqlalchemy as sa\nfrom alembic import op\nrevision = '9999'\ndown_revision = {newest!r}\n"
        "branch_labels = None\ndepends_on = None\n"
        "def upgrade():\n    op.create_table('later_things', sa.Column('id', sa.String(32), primary_key=True))\n"
    )
    environment = {"PYTHONPATH": str(newer), "PYTHONSAFEPATH": "1"}
    assert "falaj down" in running.fails("upgrade", **environment)
    running.stop()
    assert "falaj upgrade" in running.fails("up", "--port", "0", **environment)
    assert running.json("doctor", status=1, **environment)["healthy"] is False
    done = running.json("upgrade", **environment)
    assert (done["before"], done["after"]) == (newest, "9999")
    assert "whole" in running("backup", "verify", done["backup"], **environment)
    again = Running(tmp_path / "home", tmp_path / "config", **environment)
    try:
        assert again("blob", "get", "default", blob, "-") == "water"
    finally:
        again.stop()
    assert "newer" in running.fails("upgrade")


def test_upgrade_says_that_there_is_nothing_to_do(falaj: Falaj, platform: Running):
    assert "falaj up" in falaj.fails("upgrade")
    assert "already" in platform("upgrade")
    assert platform.json("upgrade")["backup"] == ""
