from collections.abc import Iterator

import pytest

from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from tests.app.running import RunningPlatform
from tests.mlflow.clients import CLIENTS, Flows
from tests.mlflow.plain import Api


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with a project for each client beside `default`, and a stranger's project `other`."""
    running = RunningPlatform(tmp_path_factory.mktemp("mlflow") / "home")
    try:
        for name in (*CLIENTS, "other"):
            running.call(CREATE_PROJECT, CreateProject(name=name, zones=("home",)))
        yield running
    finally:
        running.close()


@pytest.fixture(scope="session")
def engineers(platform: RunningPlatform) -> dict[str, str]:
    """For each client's project, the token of somebody who may train and promote there, and nowhere else."""
    return {client: platform.person(f"{client}-engineer", roles={client: Role.ENGINEER}) for client in CLIENTS}


@pytest.fixture(scope="session")
def flows(platform: RunningPlatform, engineers: dict[str, str]) -> Iterator[Flows]:
    flows = Flows(platform, engineers)
    flows.start()
    yield flows
    flows.close()


@pytest.fixture(scope="session")
def api(platform: RunningPlatform) -> Iterator[Api]:
    """The plain protocol, as the owner of the project `default`."""
    with platform.http(platform.token) as http:
        yield Api(http)
