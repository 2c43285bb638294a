"""The real servers that tests run against; each starts when a test first asks for it."""

import os
import signal

import pytest
from hypothesis import settings

from tests.servers.places import quick_folder

os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", quick_folder())  # under which pytest makes `tmp_path`
# Tests start Python some thousand times, with large libraries: what it compiles it keeps, even where it is told not to.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell has what it runs in the background ignore Ctrl-C, and the commands that tests interrupt would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are noisy: no test is timed, so no example is either.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

pytest_plugins = [
    "tests.servers.processes",
    "tests.servers.warm",
    "tests.servers.postgres",
    "tests.servers.tables",
    "tests.servers.s3",
    "tests.servers.redis",
    "tests.servers.oidc",
    "tests.servers.softhsm",
    "tests.servers.browser",
]

# Workers take whole files, in this order. Those of rooms with long files come first, so that at the end none is left alone with
# one.
LONGEST_FIRST = (
    "mlflow",
    "benchmarks",
    "serving",
    "training",
    "cli",
    "app",
    "web",
    "examples",
    "jobs",
    "repository",
    "storage",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        room = item.nodeid.split("/")[1]
        return LONGEST_FIRST.index(room) if room in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)
