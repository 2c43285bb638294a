"""The doctor names what is broken and how to mend it, platform up or down; the support bundle keeps secrets and names out."""

import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from falaj.app.home import read_document
from tests.cli.conftest import Falaj, Running

NAMES = {"home", "settings", "files", "disk", "keys", "database", "schema", "ledger", "clock", "server"}


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose platform ran and was stopped."""
    place = tmp_path_factory.mktemp("used")
    running = Running(place / "home", place / "config")
    try:
        running("project", "create", "fraud", "--zone", "home")
        running("audit", "verify")
    finally:
        running.stop()
    return running.home


@pytest.fixture
def stopped(used_home: Path, tmp_path: Path) -> Falaj:
    """A copy of it to spoil."""
    shutil.copytree(used_home, tmp_path / "home")
    shutil.copytree(f"{used_home}.keys", tmp_path / "home.keys")
    return Falaj(tmp_path / "home", tmp_path / "config")


def found(falaj: Falaj, *, status: int = 1) -> dict[str, list[dict[str, str]]]:
    checks: dict[str, list[dict[str, str]]] = {}
    for check in falaj.json("doctor", status=status)["checks"]:
        checks.setdefault(check["name"], []).append(check)
    return checks


def test_a_running_platform_is_healthy(platform: Running):
    checks = found(platform, status=0)
    assert set(checks) == NAMES
    assert all(check["state"] != "broken" for each in checks.values() for check in each)
    assert "is ready" in checks["server"][0]["message"]
    assert platform("doctor").splitlines()[0].startswith("ok       home")


def test_a_stopped_platform_is_healthy(stopped: Falaj):
    checks = found(stopped, status=0)
    assert set(checks) == NAMES
    assert "does not run" in checks["home"][0]["message"]


def test_a_kit_that_still_lies_with_the_keys_is_a_warning(stopped: Falaj):
    assert {check["state"] for check in found(stopped, status=0)["keys"]} == {"ok", "warning"}
    stopped("key", "kit", "--delete", "--yes")
    assert {check["state"] for check in found(stopped, status=0)["keys"]} == {"ok"}


def test_where_there_is_no_home_it_says_how_to_make_one(falaj: Falaj):
    assert found(falaj)["home"][0]["mend"].startswith("falaj up --home")


def test_a_home_that_has_settings_alone_was_never_started(falaj: Falaj):
    falaj.home.mkdir(mode=0o700)
    (falaj.home / "falaj.toml").write_text('[platform]\nprofile = "team"\n')
    checks = found(falaj)
    assert set(checks) == {"home", "settings", "files", "disk", "database", "server"}
    assert "never started" in checks["database"][0]["message"]
    assert checks["database"][0]["mend"].startswith("falaj up --home")


def open_credentials(home: Path) -> None:
    (home / "credentials.json").chmod(0o644)


def open_keys(home: Path) -> None:
    Path(f"{home}.keys").chmod(0o755)


def lose_keys(home: Path) -> None:
    Path(f"{home}.keys").rename(home.with_name("elsewhere"))


def lose_database(home: Path) -> None:
    (home / "falaj.db").unlink()


def spoil_database(home: Path) -> None:
    content = bytearray((home / "falaj.db").read_bytes())
    content[4096 : 4096 * 20] = b"\xff" * (4096 * 19)
    (home / "falaj.db").write_bytes(content)


def spoil_settings(home: Path) -> None:
    (home / "falaj.toml").write_text("[server\n")


def change(statement: str) -> Callable[[Path], None]:
    def spoil(home: Path) -> None:
        with sqlite3.connect(home / "falaj.db") as connection:
            assert connection.execute(statement).rowcount != 0
        connection.close()

    return spoil


def roll_back(home: Path) -> None:
    heads = home / "heads" / "heads.jsonl"
    last = json.loads(heads.read_text().splitlines()[-1])
    heads.write_text(heads.read_text() + json.dumps(last | {"size": last["size"] + 5}) + "\n")


@pytest.mark.parametrize(
    ("damage", "name", "mend"),
    [
        (open_credentials, "files", "chmod 600"),
        (open_keys, "files", "chmod 700"),
        (lose_keys, "keys", ""),
        (lose_database, "database", "falaj backup restore"),
        (spoil_database, "database", "falaj backup restore"),
        (spoil_settings, "settings", "falaj.toml"),
        (change("update alembic_version set version_num = '0000'"), "schema", "falaj upgrade"),
        (change("update ledger_heads set root = 'aa'"), "ledger", "falaj audit verify"),
        (change("delete from ledger_nodes"), "ledger", "falaj audit verify"),
        (roll_back, "ledger", "falaj audit verify"),
        (change("update ledger_heads set at = at + 1000000000000"), "clock", "clock"),
    ],
    ids=lambda it: getattr(it, "__name__", None),
)
def test_each_damage_is_found_and_told_with_its_mending(stopped: Falaj, damage, name, mend):
    damage(stopped.home)
    broken = [check for check in found(stopped)[name] if check["state"] == "broken"]
    assert broken
    assert mend in broken[0]["mend"]


def test_a_port_that_is_taken_and_a_setting_that_is_none_are_told(stopped: Falaj, platform: Running):
    stopped.environment |= {"FALAJ_SERVER_PORT": platform.url.rpartition(":")[2], "FALAJ_SERVER_PROT": "1"}
    checks = found(stopped)
    assert checks["server"][0]["state"] == "broken"
    assert checks["settings"][0]["state"] == "warning"


def test_the_support_bundle_has_what_helps_and_neither_secrets_nor_names(tmp_path: Path):
    secrets = {"hunter2-the-pin", "sk-secret-key", "oidc-client-secret-text", "pg-password"}
    running = Running(
        tmp_path / "home",
        tmp_path / "config",
        FALAJ_OIDC_CLIENT_SECRET="oidc-client-secret-text",
        FALAJ_KEYS_PIN="hunter2-the-pin",
    )
    try:
        running("user", "create", "maryam", "--display", "Maryam Alhashimi", "--email", "maryam@example.org")
        token = running.json("token", "create", "mine")["token"]
        log = running.home / "logs" / "falaj.log"
        with log.open("a") as stream:
            for text in (
                token,
                "maryam did it",
                "mail maryam@example.org",
                "Alhashimi from 10.1.2.3",
                f"file {running.home}/x",
            ):
                stream.write(json.dumps({"time": "t", "level": "info", "logger": "test", "message": text}) + "\n")
        (running.home / "falaj.toml").write_text(
            '[database]\nurl = ""\n[storage.lake]\nkind = "s3"\nendpoint = "https://pg-password@s3"\n'
            'bucket = "b"\naccess_key = "a"\nsecret_key = "sk-secret-key"\n'
        )
        told = running.json("support-bundle", str(tmp_path / "bundle.tar.gz"))
        code = running("key", "kit").split("FALAJ1-")[1].split()[0]
        secrets |= {token, code, read_document(running.home / "credentials.json")["token"], running.announced["console"][-43:]}
    finally:
        running.stop()
    assert (tmp_path / "bundle.tar.gz").stat().st_mode & 0o777 == 0o600
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        members = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    assert [name.removeprefix("falaj-support/") for name in members] == told["contents"]
    everything = "\n".join(members.values())
    for secret in secrets:
        assert secret not in everything
    for personal in ("maryam", "Alhashimi", "example.org", "10.1.2.3", str(running.home)):
        assert personal.lower() not in everything.lower()
    assert json.loads(members["falaj-support/versions.json"])["falaj"]
    assert json.loads(members["falaj-support/tables.json"])["governance_principals"] == 2
    assert {check["name"] for check in json.loads(members["falaj-support/doctor.json"])} == NAMES
    assert json.loads(members["falaj-support/settings.json"])["storage"] == ["s3"]
    assert "did it" in members["falaj-support/logs/falaj.log"]


def test_a_support_bundle_of_a_broken_home_leaves_out_what_it_cannot_clean(stopped: Falaj, tmp_path: Path):
    spoil_database(stopped.home)
    log = stopped.home / "logs" / "falaj.log"
    log.write_text(json.dumps({"time": "t", "level": "info", "logger": "test", "message": "fatima did it"}) + "\nfatima\n")
    stopped("support-bundle", str(tmp_path / "bundle.tar.gz"))
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        kept = archive.extractfile("falaj-support/logs/falaj.log").read().decode()  # type: ignore[union-attr]
    assert '"level": "info"' in kept
    assert "fatima" not in kept


def test_a_home_on_postgres_is_examined_and_one_that_does_not_answer_is_told(tmp_path: Path, postgres_url: str):
    never = Falaj(tmp_path / "home", tmp_path / "config", FALAJ_DATABASE_URL=postgres_url)
    never.home.mkdir(mode=0o700)
    assert "never started" in found(never)["database"][0]["message"]
    running = Running(tmp_path / "home", tmp_path / "config", FALAJ_DATABASE_URL=postgres_url)
    try:
        checks = found(running, status=0)
        assert set(checks) == NAMES | {"storage"}
        assert checks["storage"][0]["state"] == "warning"
        assert checks["storage"][0]["message"] in running.announced["warning"]
        assert (running.home / "logs" / "falaj.log").read_text().count("The storage `local`") == 1
    finally:
        running.stop()
    (running.home / "falaj.toml").write_text(f'[storage.local]\ndirectory = "{tmp_path / "shared"}"\n')
    assert "storage" not in found(running, status=0)
    assert "Postgres answers" in found(running, status=0)["database"][0]["message"]
    running("support-bundle", str(tmp_path / "bundle.tar.gz"))
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        tables = json.loads(archive.extractfile("falaj-support/tables.json").read())  # type: ignore[union-attr]
        everything = b"".join(archive.extractfile(member).read() for member in archive)  # type: ignore[union-attr]
    assert tables["governance_principals"] == 1
    assert postgres_url.encode() not in everything
    running.environment["FALAJ_DATABASE_URL"] = "postgresql+psycopg://nobody:pass-word@127.0.0.1:1/none"
    output = json.dumps(found(running))
    assert "does not answer" in output
    assert "pass-word" not in output
