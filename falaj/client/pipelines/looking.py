"""What things that steps hand on are, asked of the platform that the environment names; and from which of them a run came."""

from collections.abc import Sequence
from contextlib import suppress

from falaj.base.errors import FalajError
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.datasets.operations import versions as datasets
from falaj.registry.operations.versions import GET_VERSION_FILE, SHOW_VERSION, GetVersionFile, OneVersion, Version
from falaj.serving.operations.endpoints import SHOW_ENDPOINT, Endpoint, OneEndpoint
from falaj.tracking.operations.runs import LOG_INPUTS, SHOW_RUN, Dataset, DatasetInput, LogInputs, OneRun, Run


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


def log_inputs(client: Client, project: str, run: str, references: Sequence[str]) -> None:
    """So that lineage leads from the data to what the run makes. The step is worth more than its record: nothing is raised."""
    with suppress(FalajError):
        found = []
        for reference in references:
            name, _, version = reference.partition("@")
            asked = datasets.OneVersion(project=project, dataset=name, version=version)
            one = client.call(datasets.SHOW_VERSION, asked)
            known, _, digest = one.lineage.rpartition("@")
            found.append(DatasetInput(dataset=Dataset(name=known, digest=digest, source_type="falaj", source=reference)))
        if found:
            client.call(LOG_INPUTS, LogInputs(project=project, run=run, datasets=tuple(found)))
