"""The local engine keeps what every engine promises, with the rights of root and without them."""

from contextlib import closing

import pytest

from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.testing.engines import EngineConformance


class TestWithGroupsAndUsers(EngineConformance):
    """As root: control groups hold the limits, and each job is a user of its own. As anybody else it is as below."""

    @pytest.fixture
    def make_engine(self, tmp_path):
        return lambda: LocalEngine(tmp_path / "jobs", Site(zone="here"))


class TestByWatching(EngineConformance):
    """As anybody: limits are held by looking, and a user namespace makes the job a user of its own."""

    @pytest.fixture
    def make_engine(self, tmp_path):
        return lambda: LocalEngine(tmp_path / "jobs", Site(zone="here", groups=False, own_user=False))


def test_a_host_has_the_io_weight_that_it_is_said_to_have(tmp_path):
    with closing(LocalEngine(tmp_path / "jobs", Site(zone="here", io=70))) as engine:
        assert [node.io for node in engine.nodes()] == [70]
