"""What things that steps hand on are, asked of the platform that the environment names."""

from falaj.client.environments import client_of_environment, project_of_environment
from falaj.registry.operations.versions import GET_VERSION_FILE, SHOW_VERSION, GetVersionFile, OneVersion, Version
from falaj.serving.operations.endpoints import SHOW_ENDPOINT, Endpoint, OneEndpoint
from falaj.tracking.operations.runs import SHOW_RUN, OneRun, Run


def version_of(model: str, version: int) -> Version:
    with client_of_environment() as client:
        return client.call(SHOW_VERSION, OneVersion(project=project_of_environment(""), model=model, version=version))


def file_of(model: str, version: int, name: str) -> bytes:
    asked = GetVersionFile(project=project_of_environment(""), model=model, version=version, name=name)
    with client_of_environment() as client:
        return b"".join(client.call(GET_VERSION_FILE, asked).chunks)


def run_of(run: str) -> Run:
    with client_of_environment() as client:
        return client.call(SHOW_RUN, OneRun(project=project_of_environment(""), run=run))


def endpoint_of(endpoint: str) -> Endpoint:
    with client_of_environment() as client:
        return client.call(SHOW_ENDPOINT, OneEndpoint(project=project_of_environment(""), endpoint=endpoint))
