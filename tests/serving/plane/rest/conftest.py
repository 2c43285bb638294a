"""One server for the tests that only ask; those that hold, break or stop one make their own."""

from collections.abc import Iterator

import pytest

from tests.serving.plane.rest.arithmetic import Arithmetic, Server


@pytest.fixture
def core() -> Arithmetic:
    return Arithmetic()


@pytest.fixture
def server(core: Arithmetic) -> Iterator[Server]:
    with Server(core) as running:
        yield running
