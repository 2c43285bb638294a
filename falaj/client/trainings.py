"""Sending a function to train as a job, from a notebook or a program: `falaj train` without a file."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from falaj.base.errors import Invalid
from falaj.client import packing, shapes
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
    cpus: float | None = None,
    gpus: float | None = None,
    memory_mib: int = 1024,
    apply_profile: bool = False,
    source: Path | None = None,
    project: str = "",
    client: Client | None = None,
    **job: Any,
) -> Submitted:
    """Submits a job that calls `function(*arguments, **named)`.

    The function goes along as it is written: it imports what it needs itself, and its arguments are plain values. `source` is
    a folder that goes along; `job` has further fields of a job, such as `experiment` or `lock`. With `apply_profile` CPUs and
    GPUs that are not given are what the function's last profile in the experiment asks for; the plan's remarks say why. The
    platform is the client's, or that of FALAJ_URL and FALAJ_TOKEN; the project FALAJ_PROJECT's. What it writes `falaj job
    logs` shows.
    """
    text, name = functions.script_of(function, arguments, named), f"{function.__name__}_function.py"
    reading = read_text(text, name, *([source] if source else ()))
    besides = companions() | {name: text.encode()}
    content = packing.packed(source, besides).content if source else packing.packed_alone(besides)
    project = project or os.environ.get("FALAJ_PROJECT", "")
    if not project:
        raise Invalid("No project was named: give one with project=, or set FALAJ_PROJECT.")
    label = re.sub(r"[^A-Za-z0-9]+", "-", function.__name__).strip("-")[:100]
    wish = Resources(cpus=1.0 if cpus is None else cpus, memory_mib=memory_mib, gpus=gpus or 0.0)
    fields: dict[str, Any] = {"name": label, "checkpoints": True, "resources": wish, "tasks": nodes} | job
    spec = Spec(command=(name,), **fields)
    sentences: tuple[str, ...] = ()
    with nullcontext(client) if client else _client() as open_client:
        if apply_profile:
            fixed = {option for option, given in (("cpus", cpus), ("gpus", gpus)) if given is not None or "resources" in job}
            spec, sentences = shapes.advised(open_client, project, spec, name, fixed)
        wish = spec.resources
        wishes = Wishes(launcher=launcher, nodes=nodes, processes=processes, cpus=wish.cpus, gpus=wish.gpus, grace=spec.grace)
        upload = declared.UploadSource(project=project, zone=spec.zone)
        launch = choose(reading, (), wishes)
        sent = open_client.call(declared.UPLOAD_SOURCE, upload, chunks=[content])
        request = declared.Submit(project=project, spec=replace(spec, command=launch.command, source=sent.digest))
        made = open_client.call(declared.SUBMIT_JOB, request)
    return replace(made, plan=replace(made.plan, remarks=(*sentences, *made.plan.remarks)))


def _client() -> Client:
    url, token = os.environ.get("FALAJ_URL", ""), os.environ.get("FALAJ_TOKEN", "")
    if not url.startswith(("http://", "https://")) or not token:
        raise Invalid("Set FALAJ_URL and FALAJ_TOKEN (`falaj token create` makes one), or give a client.")
    authorities = os.environ.get("FALAJ_CA", "")
    return Client(url, token, verify=trust(authorities=authorities) if authorities else True)
