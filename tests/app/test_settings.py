from pathlib import Path

import pytest

from falaj.app.settings import Settings, read_settings
from falaj.base.errors import Invalid


def settings_of(folder: Path, text: str, **environment: str) -> Settings:
    (folder / "falaj.toml").write_text(text)
    return read_settings(folder / "falaj.toml", environment)


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "falaj.toml", {}) == Settings()


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    text = '[server]\nport = 1\nhosts = ["a"]\n[storage.gulf-1]\nkind = "s3"\nbucket = "b"\n'
    read = settings_of(
        tmp_path, text, FALAJ_SERVER_PORT="2", FALAJ_SERVER_HOSTS="x, y", FALAJ_STORAGE_GULF_1_SECRET_KEY="secret"
    )
    assert (read.server.port, read.server.hosts) == (2, ("x", "y"))
    assert read.storage is not None
    assert (read.storage["gulf-1"].bucket, read.storage["gulf-1"].secret_key) == ("b", "secret")


@pytest.mark.parametrize(
    ("text", "environment", "named"),
    [
        ("[server]\nport = 70000\n", {}, "server.port"),
        ('[server]\nport = "8400"\n', {}, "server.port"),
        ("[server]\nprot = 1\n", {}, "server.prot"),
        ("server = 1\n", {}, "server"),
        ("storage = 1\n", {}, "storage"),
        ("[storage]\nlocal = 1\n", {}, "storage.local"),
        ('[storage."../x"]\nkind = "folder"\n', {}, "storage"),
        ('[platform]\nprofile = "bank"\n', {}, "platform.profile"),
        ("", {"FALAJ_SERVER_PORT": "many"}, "server.port"),
        ("[server\n", {}, "not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, environment: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        settings_of(tmp_path, text, **environment)
