from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.app.certificates import self_signed
from falaj.app.settings import MonitoringSettings
from tests.monitoring.sending.receivers import Server, Web, serving
from tests.serving.control.conftest import migrations_run_once, opener, platform, small
from tests.serving.control.platform import Platform

__all__ = ["migrations_run_once", "opener", "platform", "small"]


@pytest.fixture(params=["sqlite", "postgres"])
def near(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Platform]:
    """A platform whose operator allows receivers inside the network, on either database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    opened = Platform(tmp_path, url, monitoring=MonitoringSettings(private_receivers=True))
    yield opened
    opened.close()


@pytest.fixture
def small_near(tmp_path: Path) -> Iterator[Platform]:
    """The same on SQLite alone."""
    opened = Platform(tmp_path, monitoring=MonitoringSettings(private_receivers=True))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("certificate"), ["localhost", "127.0.0.1"])


@pytest.fixture
def receiver(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Speaks TLS; what it got has the path, the headers and the body."""
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    with serving(Web, pair) as server:
        yield server


@pytest.fixture
def other_receiver(pair: tuple[Path, Path], receiver: Server) -> Iterator[Server]:
    with serving(Web, pair) as server:
        yield server
