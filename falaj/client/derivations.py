"""Deriving from notebooks and jobs: `falaj.derive("spent", "SELECT ... FROM clicks")`. `falaj dataset derive` has functions."""

from collections.abc import Sequence
from contextlib import nullcontext

from falaj.client.datasets import Dataset, dataset, published
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.datasets.operations.deriving import DERIVE, Derive


def derive(
    name: str,
    sql: str,
    *,
    inputs: Sequence[str] = (),
    anew: bool = False,
    project: str = "",
    client: Client | None = None,
) -> Dataset:
    """What one SELECT finds in datasets, as a version of the dataset `name`, to be read like any other.

    It reads current versions, or those of `inputs` such as `users@3`. The same of the same rows is not made twice, unless it
    shall be made `anew`. Raises `Conflict` where the version broke a check of the dataset, and is in quarantine.
    """
    asked = Derive(project=project_of_environment(project), dataset=name, sql=sql, inputs=tuple(inputs), anew=anew)
    with nullcontext(client) if client is not None else client_of_environment() as caller:
        made = published(caller.call(DERIVE, asked).version)
    return dataset(f"{name}@{made.version}", project=asked.project, client=client)
