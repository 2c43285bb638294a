"""`falaj deploy`: a registered version becomes an endpoint, or a canary, a shadow or an arm of one."""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from falaj.base.errors import FalajError, Invalid, Unavailable
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.overtaking import overtaking
from falaj.cli.splits import described, share_of
from falaj.cli.terminal import Terminal
from falaj.datasets.operations.features import SHOW_VIEW, FeatureView, OneView
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.serving.operations.endpoints import (
    DEPLOY_REVISION,
    SHOW_ENDPOINT,
    Deploy,
    Deployment,
    Endpoint,
    OneEndpoint,
    Options,
)
from falaj.serving.operations.keys import ASK_FOR_TOKEN, AskForToken
from falaj.serving.operations.words import WHOLE, Mode, Steps

if TYPE_CHECKING:
    from falaj.client import predictions
else:
    predictions = Deferred("falaj.client.predictions")

commands = Commands("Serving models.")
PATIENCE: Final = 600.0
_ASKS: Final = 0.05


def _percent(help: str) -> Any:
    return typer.Option(help=help, metavar="PERCENT", show_default=False)


@commands.command("deploy")
def deploy(
    terminal: Terminal,
    model: Annotated[
        str, typer.Argument(help="MODEL:VERSION or MODEL@ALIAS; MODEL alone is its champion.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="What clients call it; the model's name by default.", show_default=False)] = "",
    canary: Annotated[float | None, _percent("Beside what is there, for so many per cent of the calls.")] = None,
    shadow: Annotated[float | None, _percent("Copies of so many per cent; its answers are only compared.")] = None,
    ab: Annotated[float | None, _percent("As an arm of a test, for so many per cent of the callers.")] = None,
    label: Annotated[str, typer.Option(help="What this arm is called.", show_default=False)] = "",
    steps: Annotated[
        str, typer.Option(help="How a canary grows by itself, e.g. 5,25,50,100.", metavar="PERCENTS", show_default=False)
    ] = "",
    every: Annotated[int, typer.Option(help="How long each step is held, in seconds.", min=1)] = 300,
    latency_ms: Annotated[int | None, typer.Option(help="The latency objective.", min=1, show_default=False)] = None,
    python: Annotated[
        bool, typer.Option("--allow-python", help="Run it isolated where it cannot be converted and policy allows that.")
    ] = False,
    variant: Annotated[
        str,
        typer.Option(help="An optimised form: a variant's name, or best: the fastest that is certified.", show_default=False),
    ] = "",
    ladder: Annotated[
        bool,
        typer.Option(
            "--ladder", help="Certified variants that are faster than what is deployed answer while it is overloaded."
        ),
    ] = False,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            help="Looked up by the keys that callers send: a view, or VIEW:FEATURE. Repeatable; as before where none is given.",
            show_default=False,
        ),
    ] = None,
    no_features: Annotated[
        bool, typer.Option("--no-features", help="Callers give every column; nothing is looked up.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)] = "",
    wait: Annotated[float, typer.Option(help="How long to wait until it answers, in seconds.", min=0)] = 60.0,
    project: InProject = "",
) -> None:
    """Serve a registered version behind a name, and wait until it answers.

    Example: falaj deploy card-fraud:5 --name fraud --canary 10 --steps 10,50,100 --every 600
    """
    chosen = project_of(terminal, project)
    registered, version, alias = meant(model)
    mode, share = _mode(canary, shadow, ab)
    request = Deploy(
        project=chosen,
        endpoint=name or registered,
        model=registered,
        version=version,
        alias=alias,
        mode=mode,
        share=share,
        label=label,
        steps=Steps(shares=tuple(share_of(part) for part in steps.split(",") if part.strip()), seconds=every),
        options=None if latency_ms is None else Options(latency_ms=latency_ms),
        allow_python=python,
        variant=variant,
        ladder=ladder,
        features=_features(feature, none=no_features),
        reason=reason,
    )
    with overtaking(terminal, chosen, request.endpoint):
        made = terminal.call(DEPLOY_REVISION, request, patience=PATIENCE)
    endpoint = answering(terminal, chosen, made.endpoint, patience=wait) if wait else made.endpoint
    example = _example(terminal, chosen, endpoint, made.revision)
    terminal.show(Deployment(endpoint=endpoint, revision=made.revision, remarks=made.remarks), _deployed(chosen, example))


def _features(given: list[str] | None, *, none: bool) -> tuple[str, ...] | None:
    if given and none:
        raise Invalid("--feature and --no-features cannot be had together.")
    return () if none else tuple(given) if given else None


def meant(model: str) -> tuple[str, int, str]:
    """`MODEL:3`, `MODEL/3`, `MODEL@alias` or `MODEL`, as name, number and alias."""
    for mark in ":/":
        name, found, number = model.rpartition(mark)
        if found:
            if not (name and number.isascii() and number.isdigit() and int(number)):
                raise Invalid(f"{model!r} names no version; write it like card-fraud:3 or card-fraud@champion.")
            return name, int(number), ""
    name, _, alias = model.partition("@")
    return name, 0, alias


def answering(terminal: Terminal, project: str, endpoint: Endpoint, *, patience: float) -> Endpoint:
    """The endpoint once every plane answers by its newest state. Raises `Unavailable` where that takes too long."""
    deadline = time.monotonic() + patience
    while True:
        if endpoint.ready and endpoint.ready == endpoint.planes:
            return endpoint
        if time.monotonic() > deadline:
            why = " ".join(endpoint.problems) or "No serving plane has said that it answers; look at `falaj plane list`."
            raise Unavailable(f"The change is made, and {endpoint.name} does not answer by it yet. {why}")
        time.sleep(_ASKS)
        endpoint = terminal.call(SHOW_ENDPOINT, OneEndpoint(project=project, endpoint=endpoint.name))


def _mode(canary: float | None, shadow: float | None, ab: float | None) -> tuple[Mode, int]:
    wishes: list[tuple[Mode, float | None]] = [("canary", canary), ("shadow", shadow), ("ab", ab)]
    given = [(mode, percent) for mode, percent in wishes if percent is not None]
    if len(given) > 1:
        raise Invalid("A revision is a canary, a shadow or an arm of an A/B test: give one of --canary, --shadow, --ab.")
    return (given[0][0], share_of(given[0][1])) if given else ("live", WHOLE)


def _example(terminal: Terminal, project: str, endpoint: Endpoint, number: int) -> str:
    """A record as the model's signature describes it, or as its plane does; with a column that stands for all, where none has
    loaded it."""
    revision = next(one for one in endpoint.revisions if one.number == number)
    looked = {feature.partition(":")[2] for feature in revision.features}
    request = OneVersion(project=project, model=revision.model, version=revision.version)
    inputs = json.loads(terminal.call(SHOW_VERSION, request).inputs or "[]")
    samples = {"string": "a", "boolean": True, "long": 1, "integer": 1}
    named = {field["name"]: samples.get(field.get("type", ""), 1.0) for field in inputs if field.get("name")}
    views = dict.fromkeys(feature.partition(":")[0] for feature in revision.features)
    found = [terminal.call(SHOW_VIEW, OneView(project=project, view=view)) for view in views]
    keys = {key.in_labels: _key_sample(view, key.in_labels) for view in found for key in view.keys}
    given = keys | {name: sample for name, sample in named.items() if name not in looked and name not in keys}
    return json.dumps(given or _by_its_plane(terminal, project, endpoint, number) or {"column": 1.0})


def _by_its_plane(terminal: Terminal, project: str, endpoint: Endpoint, number: int) -> dict[str, Any]:
    """Of a model without a signature: its own inputs, a list for each that has a length."""
    try:
        token = terminal.call(ASK_FOR_TOKEN, AskForToken(project=project, endpoint=endpoint.name)).token
        planes = predictions.Planes(endpoint.urls, token, trust=terminal.access.trust_in_planes(endpoint.certificates))
        inputs = planes.inputs(endpoint.name, number)
    except FalajError:  # it is deployed all the same
        return {}
    return {one["name"]: _tensor_sample(one["datatype"], one["shape"][1:]) for one in inputs}


def _tensor_sample(datatype: str, shape: Sequence[int]) -> Any:
    if shape:
        return [_tensor_sample(datatype, shape[1:])] * max(1, shape[0])
    return {"BYTES": "a", "BOOL": True}.get(datatype, 1 if "INT" in datatype else 1.0)


def _key_sample(view: FeatureView, name: str) -> Any:
    kind = next((column.type for column in view.columns if column.name == name), "int64")
    return {"text": "a", "bool": True, "date": "2026-11-15", "moment": "2026-11-15T09:30:00Z", "bytes": "YQ=="}.get(kind, 1)


def _deployed(project: str, example: str) -> Callable[[Layout, Deployment], None]:
    def render(layout: Layout, made: Deployment) -> None:
        endpoint = made.endpoint
        layout.line(f"{endpoint.name}: revision {made.revision}; {described(endpoint)}.")
        for remark in made.remarks:
            layout.line(remark, style="yellow")
        if endpoint.url:
            named = f"{shlex.quote(endpoint.name)} --project {shlex.quote(project)}"
            layout.line("Try it:")
            layout.line(f"  falaj predict {named} {shlex.quote(example)}")
            believed = f"--cacert <(falaj endpoint certificates {named}) " if endpoint.certificates else ""
            url = f"{endpoint.url}/v2/endpoints/{endpoint.name}/predict"
            token = f"falaj endpoint token {named}"
            layout.line(f'  curl {believed}{url} -H "authorization: Bearer $({token})" -d {shlex.quote(example)}')

    return render
