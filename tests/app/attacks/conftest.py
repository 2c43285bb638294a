"""A world to attack for each module, watched: the platform never meets an error that it did not expect."""

from collections.abc import Iterator

import pytest

from tests.app.running import RunningPlatform
from tests.app.world import World

SMALL_BODY = 64 * 1024
SMALL_UPLOAD = 1024 * 1024
SETTINGS = f"""
[limits]
body_bytes = {SMALL_BODY}
body_seconds = 2.0
upload_bytes = {SMALL_UPLOAD}
upload_stall_seconds = 2.0
stranger_calls_per_second = 100000

[serving]
enabled = false

[jobs]
local = false
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    platform = RunningPlatform(tmp_path_factory.mktemp("platform") / "home", settings=SETTINGS)
    try:
        made = World(platform)
        yield made
        made.close()
    finally:
        platform.close()


@pytest.fixture(autouse=True)
def _nothing_fails_inside(world: World) -> Iterator[None]:
    """Whatever is done here, the platform never meets an error that it did not expect."""
    before = world.platform.home.log.read_text().count("Traceback")
    yield
    log = world.platform.home.log.read_text()
    assert log.count("Traceback") == before, log[-4000:]


@pytest.fixture
def unchanged(world: World) -> Iterator[None]:
    """Nothing that the test does may change anything."""
    before = world.state()
    yield
    assert world.state() == before
