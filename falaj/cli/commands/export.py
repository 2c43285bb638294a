"""`falaj export`: an endpoint for servers of others, and for hosts that no control plane reaches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.base.errors import Conflict
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import agreeing
from falaj.serving.operations import exports as exported

if TYPE_CHECKING:
    from falaj.serving import states
    from falaj.serving.exporting import edge, kserve, models, triton
else:
    states = Deferred("falaj.serving.states")
    edge, kserve = Deferred("falaj.serving.exporting.edge"), Deferred("falaj.serving.exporting.kserve")
    models, triton = Deferred("falaj.serving.exporting.models"), Deferred("falaj.serving.exporting.triton")

commands = Commands("Take an endpoint's model elsewhere.")
OfEndpoint = Annotated[str, typer.Argument(help="The endpoint's name.", show_default=False)]
Directory = Annotated[Path, typer.Option(help="Where to write it.", show_default=False)]
Revision = Annotated[
    int, typer.Option(help="Which revision; the one that most calls go to by default.", min=0, show_default=False)
]
Gpu = Annotated[bool, typer.Option("--gpu", help="For a GPU; ONNX models through TensorRT.")]
HalfPrecision = Annotated[bool, typer.Option("--fp16", help="Let TensorRT compute in half precision.")]


@commands.command("triton")
def to_triton(
    terminal: Terminal,
    endpoint: OfEndpoint,
    directory: Directory,
    revision: Revision = 0,
    gpu: Gpu = False,
    fp16: HalfPrecision = False,
    max_batch: Annotated[int, typer.Option(help="Most rows of a request; 0: as measured here.", min=0, max=65_536)] = 0,
    project: InProject = "",
) -> None:
    """Write a model repository for NVIDIA Triton: the model, and its configuration with batching as measured here.

    Example: falaj export triton fraud --directory repository --gpu --project fraud
    """
    bundle = _bundle(terminal, project, endpoint, revision)
    model = _loaded(terminal, project, bundle)
    files = triton.repository(model, triton.Wishes(gpu=gpu, fp16=fp16, max_batch=max_batch))
    _write(terminal, directory, files, f"Start it with: tritonserver --model-repository={directory}")


@commands.command("kserve")
def to_kserve(
    terminal: Terminal,
    endpoint: OfEndpoint,
    directory: Directory,
    storage_uri: Annotated[str, typer.Option(help="Where the folder `model` will lie, e.g. s3://bucket/fraud.")],
    revision: Revision = 0,
    gpu: Gpu = False,
    fp16: HalfPrecision = False,
    min_replicas: Annotated[int, typer.Option(help="0 lets it scale to zero.", min=0)] = 1,
    max_replicas: Annotated[int, typer.Option(help="The most pods.", min=1)] = 3,
    cpu: Annotated[str, typer.Option(help="Of each pod, as Kubernetes counts.")] = "1",
    project: InProject = "",
) -> None:
    """Write an InferenceService for KServe, and the folder that it loads its model from.

    Example: falaj export kserve fraud --directory fraud --storage-uri s3://models/fraud --project fraud
    """
    bundle = _bundle(terminal, project, endpoint, revision)
    wishes = kserve.Wishes(
        storage_uri=storage_uri, gpu=gpu, fp16=fp16, least_replicas=min_replicas, most_replicas=max_replicas, cpu=cpu
    )
    files = kserve.files(_loaded(terminal, project, bundle), wishes)
    told = f"Copy {directory}/{kserve.FOLDER} to {storage_uri}, then: kubectl apply -f {directory}/{kserve.MANIFEST}"
    _write(terminal, directory, files, told)


@commands.command("edge")
def to_edge(
    terminal: Terminal, endpoint: OfEndpoint, directory: Directory, revision: Revision = 0, project: InProject = ""
) -> None:
    """Write a folder that `falaj serve --directory` answers from, on a host that no control plane reaches. Keep it secret.

    Example: falaj export edge fraud --directory fraud-edge --project fraud
    """
    bundle = _bundle(terminal, project, endpoint, revision)
    edge.write(directory.absolute(), bundle, _contents(terminal, project, bundle))
    terminal.told(
        {"directory": str(directory), "endpoint": endpoint},
        f"Carry {directory} to that host and run there: falaj serve --directory {directory.name} --host 0.0.0.0",
    )


def _bundle(terminal: Terminal, project: str, endpoint: str, revision: int) -> exported.Bundle:
    request = exported.ReadBundle(project=project_of(terminal, project), endpoint=endpoint, revision=revision)
    return terminal.call(exported.READ_BUNDLE, request)


def _contents(terminal: Terminal, project: str, bundle: exported.Bundle) -> dict[str, bytes]:
    (endpoint,) = states.decode(bundle.state.body.encode()).endpoints
    (revision,) = endpoint.revisions
    chosen, found = project_of(terminal, project), {}
    for file in revision.files:
        request = exported.ReadRevisionFile(project=chosen, endpoint=endpoint.name, revision=revision.number, file=file.name)
        found[file.name] = b"".join(agreeing(terminal.call(exported.READ_REVISION_FILE, request).chunks, file.digest))
    return found


def _loaded(terminal: Terminal, project: str, bundle: exported.Bundle) -> "models.Exported":
    (endpoint,) = states.decode(bundle.state.body.encode()).endpoints
    return models.exported(endpoint, _contents(terminal, project, bundle))


def _write(terminal: Terminal, directory: Path, files: dict[str, bytes], told: str) -> None:
    """A further version beside those that are there; nothing that is there is changed but configurations."""
    kept = [place for place in files if (directory / place).exists() and not place.endswith((".pbtxt", ".yaml"))]
    if kept:
        raise Conflict(f"{directory / kept[0]} is there already; name another directory, or remove it first.")
    for place, content in files.items():
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        (directory / place).write_bytes(content)
    terminal.told({"directory": str(directory), "files": sorted(files)}, told)
