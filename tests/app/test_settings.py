from pathlib import Path

import pytest

from falaj.app.jobs import pools_of
from falaj.app.settings import Settings, read_settings
from falaj.base.clock import SECOND
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


# Hosts on demand

COMMANDS = 'add = ["/opt/add", "{name}"]\nremove = ["/opt/remove", "{host}"]\n'


def test_pools_are_read_in_their_order_and_hosts_are_in_the_zone_of_their_engine(tmp_path: Path) -> None:
    first = f"[jobs.pools.zeta]\ncpus = 2.5\nmemory_mib = 2048\nmost = 4\n{COMMANDS}"
    second = (
        f'[jobs.pools.alpha]\ngpus = 2\ngpu_model = "L4"\nqueues = ["lab"]\ncool_down_seconds = 5\nzone = "gulf"\n{COMMANDS}'
    )
    read = settings_of(tmp_path, f'[jobs]\nray_zone = "away"\n{first}{second}', FALAJ_JOBS_POOLS="no table")
    zeta, alpha = pools_of(read.jobs, "home")
    assert (zeta.name, zeta.engine, zeta.least, zeta.most, zeta.add) == ("zeta", "ray", 0, 4, ("/opt/add", "{name}"))
    assert (zeta.host.zone, zeta.host.cpu_milli, zeta.host.memory_mib, zeta.host.cards) == ("away", 2500, 2048, ())
    assert (alpha.host.zone, alpha.host.cards, alpha.queues, alpha.cool_down) == ("gulf", ("L4", "L4"), ("lab",), 5 * SECOND)
    assert pools_of(Settings().jobs, "home") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "add names no command"),
        ('add = ["/opt/add", "{name}"]\n', "remove names no command"),
        ('add = ["/opt/add"]\nremove = ["/opt/remove", "{name}"]\n', "add does not say which host it is about"),
        (f"least = 3\nmost = 2\n{COMMANDS}", "least is 3 and most is 2"),
        (f"gpus = 1\n{COMMANDS}", "has 1 GPUs and does not say which"),
        (f"most = 0\n{COMMANDS}", "most"),
        (f'engine = "local"\n{COMMANDS}', "engine"),
        ('add = "/opt/add {name}"\n', "add"),
        ("cpu = 1\n", "cpu"),
    ],
)
def test_what_is_wrong_with_a_pool_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Invalid, match=rf"jobs\.pools\.burst.*{said}"):
        pools_of(settings_of(tmp_path, f"[jobs.pools.burst]\n{text}").jobs, "home")
