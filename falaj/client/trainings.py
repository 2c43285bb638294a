"""Sending a function to train as a job, from a notebook or a program: `falaj train` without a file."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from falaj.base.errors import Invalid
from falaj.client import packing
from falaj.client.http import Client
from falaj.client.trust import trust
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Spec, Submitted
from falaj.jobs.operations.words import Resources
from falaj.training.launchers import functions
from falaj.training.launchers.choosing import Wishes, choose
from falaj.training.launchers.reading import read_text
from falaj.training.launchers.travelling import companions


def train(
    function: Callable[..., Any],
    *arguments: Any,
    named: Mapping[str, Any] | None = None,
    nodes: int = 1,
    processes: int = 0,
    launcher: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
    memory_mib: int = 1024,
    source: Path | None = None,
    project: str = "",
    client: Client | None = None,
    **job: Any,
) -> Submitted:
    """Submits a job that calls `function(*arguments, **named)`.

    The function goes along as it is written: it imports what it needs itself, and its arguments are plain values. `source` is
    a folder that goes along; `job` has further fields of a job, such as `experiment` or `lock`. The platform is the client's,
    or that of FALAJ_URL and FALAJ_TOKEN; the project FALAJ_PROJECT's. What it writes `falaj job logs` shows.
    """
    text = functions.script_of(function, arguments, named)
    wishes = Wishes(launcher=launcher, nodes=nodes, processes=processes, cpus=cpus, gpus=gpus, grace=job.get("grace", 30))
    name = f"{function.__name__}_function.py"
    launch = choose(read_text(text, name, *([source] if source else ())), (), wishes)
    besides = companions() | {name: text.encode()}
    content = packing.packed(source, besides)[0] if source else packing.packed_alone(besides)
    project = project or os.environ.get("FALAJ_PROJECT", "")
    if not project:
        raise Invalid("No project was named: give one with project=, or set FALAJ_PROJECT.")
    label = re.sub(r"[^A-Za-z0-9]+", "-", function.__name__).strip("-")[:100]
    spec: dict[str, Any] = {"name": label, "checkpoints": True} | job
    with nullcontext(client) if client else _client() as open_client:
        upload = declared.UploadSource(project=project, zone=spec.get("zone", ""))
        sent = open_client.call(declared.UPLOAD_SOURCE, upload, chunks=[content])
        request = declared.Submit(
            project=project,
            spec=Spec(
                command=launch.command,
                source=sent.digest,
                resources=Resources(cpus=cpus, memory_mib=memory_mib, gpus=gpus),
                tasks=launch.nodes,
                **spec,
            ),
        )
        return open_client.call(declared.SUBMIT_JOB, request)


def _client() -> Client:
    url, token = os.environ.get("FALAJ_URL", ""), os.environ.get("FALAJ_TOKEN", "")
    if not url.startswith(("http://", "https://")) or not token:
        raise Invalid("Set FALAJ_URL and FALAJ_TOKEN (`falaj token create` makes one), or give a client.")
    authorities = os.environ.get("FALAJ_CA", "")
    return Client(url, token, verify=trust(authorities=authorities) if authorities else True)
