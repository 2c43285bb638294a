from collections.abc import Iterator

import pytest

from tests.serving.plane.grpc.peer import Peer
from tests.serving.plane.grpc.serving import Served, served


@pytest.fixture(scope="module")
def face() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def peer(face: Served) -> Iterator[Peer]:
    with Peer(face.port) as connected:
        yield connected
