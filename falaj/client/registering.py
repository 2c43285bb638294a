"""`falaj.register("late")`: the files that a run kept, as the next version of a registered model."""

import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress

from falaj.base.errors import Conflict, Invalid
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.client.pipelines.kinds import ModelVersion
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.registry.operations.words import ModelTag


def register(
    model: str,
    folder: str = "model",
    *,
    run: str = "",
    description: str = "",
    tags: Mapping[str, str] | None = None,
    project: str = "",
    client: Client | None = None,
) -> ModelVersion:
    """What the run kept below `folder`, as `falaj.training.classic.export` does, as a version of `model`, which is made where
    there is none.

    The run is by default that of the job; asked twice in one job, it is the same version. The platform is the client's, or
    that of FALAJ_URL and FALAJ_TOKEN; the project FALAJ_PROJECT's.
    """
    chosen, holder = project_of_environment(project), run or os.environ.get("FALAJ_RUN", "")
    if not holder:
        raise Invalid("No run was named, and this job has none: give run=, or let the job have an experiment.")
    request = CreateVersion(
        project=chosen,
        model=model,
        holder=holder,
        folder=folder,
        run=holder,
        description=description,
        tags=tuple(ModelTag(key=key, value=text) for key, text in (tags or {}).items()),
    )
    job = os.environ.get("FALAJ_JOB", "")
    with nullcontext(client) if client is not None else client_of_environment() as caller:
        with suppress(Conflict):  # it is there
            caller.call(CREATE_MODEL, CreateModel(project=chosen, model=model))
        made = caller.call(CREATE_VERSION, request, key=f"register {job} {model} {folder}"[:200] if job else "")
    return ModelVersion(model=made.model, version=made.version)
