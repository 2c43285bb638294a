"""Platforms as processes of their own: one that a module's tests share, and any number that a test may kill."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.mortal import MortalPlatform
from tests.app.running import RunningPlatform

MakePlatform = Callable[..., MortalPlatform]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform that runs, for all tests of a module that do not stop or break it."""
    running = RunningPlatform(tmp_path_factory.mktemp("platform") / "home")
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def make_platform(tmp_path: Path) -> Iterator[MakePlatform]:
    """Makes platforms, not started yet, in the test's own directory; whatever runs at the end is killed."""
    made: list[MortalPlatform] = []

    def make(name: str = "home", **options: Any) -> MortalPlatform:
        made.append(MortalPlatform(options.pop("home", tmp_path / name), **options))
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.close()


@pytest.fixture
def start_platform(tmp_path: Path) -> Iterator[Callable[..., RunningPlatform]]:
    """Starts platforms that end with the test: `start_platform(*arguments, settings="...", ENVIRONMENT="...")`."""
    started: list[RunningPlatform] = []

    def start(*arguments: str, settings: str = "", **environment: str) -> RunningPlatform:
        started.append(RunningPlatform(tmp_path / f"started{len(started)}", *arguments, settings=settings, **environment))
        return started[-1]

    try:
        yield start
    finally:
        for running in started:
            running.close()
