"""`falaj model`: registered models and their versions. Which version is in production is moved by `promotions`."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.cli.choosing import InProject, OfModel, OfVersion, holder_of, pair_of, project_of, version_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.commands import copies, lineage, promotions, variants
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, listing, rounded, sentence, tell_of_more
from falaj.cli.naming import name_of
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import STANDARD, agreeing, save, watched
from falaj.registry.operations.models import (
    CREATE_MODEL,
    DELETE_MODEL,
    SEARCH_MODELS,
    SHOW_MODEL,
    CreateModel,
    Model,
    Models,
    OneModel,
    SearchModels,
)
from falaj.registry.operations.versions import (
    CHECK_SERVABLE,
    CREATE_VERSION,
    DELETE_VERSION,
    DIFF_VERSIONS,
    GET_SBOM,
    GET_SIGNATURE,
    GET_VERSION_FILE,
    LIST_VERSION_FILES,
    SEARCH_VERSIONS,
    SHOW_VERSION,
    VERIFY_VERSION,
    CreateVersion,
    DiffVersions,
    GetVersionFile,
    ListVersionFiles,
    OneVersion,
    SearchVersions,
    ServableCheck,
    Verification,
    Version,
    VersionDiff,
    VersionFile,
    Versions,
)
from falaj.registry.operations.words import REPLAY_OF, ModelTag

if TYPE_CHECKING:
    from falaj.cli import model_story
    from falaj.lifecycle.operations import stories
    from falaj.web.stories import file as story_file
else:
    model_story, story_file = Deferred("falaj.cli.model_story"), Deferred("falaj.web.stories.file")
    stories = Deferred("falaj.lifecycle.operations.stories")

commands = Commands("Registered models: versions, which of them is in production, who moved it there.")
for _name, _function in (*promotions.COMMANDS.items(), *copies.COMMANDS.items(), *variants.COMMANDS.items()):
    commands.command(_name)(_function)
FILTER = "Only these, in MLflow's language, e.g. \"name LIKE 'fraud%'\"."
ORDER = 'What to order by, e.g. "name DESC". Repeatable.'
TAG = "A tag, key=value. Repeatable."
TARGET = "Where to write it; - is standard output."
PATIENCE = 600.0


@commands.command("list")
def list_models(
    terminal: Terminal,
    filter: Annotated[str, typer.Option(help=FILTER, show_default=False)] = "",
    order: Annotated[list[str] | None, typer.Option(help=ORDER, metavar="ORDER")] = None,
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List the registered models of a project.

    Example: falaj model list --project fraud
    """
    request = SearchModels(
        project=project_of(terminal, project), filter=filter, order=tuple(order or ()), limit=limit, cursor=cursor
    )
    terminal.run(SEARCH_MODELS, request, _models)


@commands.command("show")
def show(
    terminal: Terminal,
    model: OfModel,
    version: Annotated[str, typer.Argument(help="One version, by number or alias.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Show a registered model, or one of its versions.

    Example: falaj model show card-fraud champion --project fraud
    """
    chosen = project_of(terminal, project)
    if version:
        found = terminal.call(SHOW_VERSION, _meant(terminal, chosen, model, version))
        by = found.created_by if terminal.as_json else name_of(terminal, chosen, found.created_by)
        terminal.show(dataclasses.replace(found, created_by=by), _version)
    else:
        whole = terminal.call(SHOW_MODEL, OneModel(project=chosen, model=model))
        by = whole.created_by if terminal.as_json else name_of(terminal, chosen, whole.created_by)
        terminal.show(dataclasses.replace(whole, created_by=by), _model)


@commands.command("versions")
def versions(
    terminal: Terminal,
    model: OfModel,
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List the versions of a registered model, newest first.

    Example: falaj model versions card-fraud --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.call(SHOW_MODEL, OneModel(project=chosen, model=model))  # a name that is misspelled is told
    quoted = model.replace("'", "''")
    request = SearchVersions(
        project=chosen,
        filter=f"name = '{quoted}'",
        order=("version_number DESC",),
        limit=limit,
        cursor=cursor,
    )
    terminal.run(SEARCH_VERSIONS, request, _versions)


@commands.command("create")
def create(
    terminal: Terminal,
    model: OfModel,
    description: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
    tag: Annotated[list[str] | None, typer.Option(help=TAG, metavar="PAIR")] = None,
    project: InProject = "",
) -> None:
    """Create a registered model, still without versions.

    Example: falaj model create card-fraud --description "Scores card payments." --project fraud
    """
    request = CreateModel(project=project_of(terminal, project), model=model, description=description, tags=_tags(tag))
    terminal.run(CREATE_MODEL, request, _model)


@commands.command("register")
def register(
    terminal: Terminal,
    model: OfModel,
    holder: Annotated[
        str, typer.Argument(help="The run, or the logged model, that has the files.", show_default=False, callback=holder_of)
    ],
    folder: Annotated[str, typer.Argument(help="Only the files below this folder.", show_default=False)] = "",
    description: Annotated[str, typer.Option(help="What is new in it.", show_default=False)] = "",
    tag: Annotated[list[str] | None, typer.Option(help=TAG, metavar="PAIR")] = None,
    project: InProject = "",
) -> None:
    """Register the files of a run or a logged model as the next version: an immutable, signed snapshot.

    Example: falaj model register card-fraud 0199a1b2c3d4e5f60718293a4b5c6d7e model --project fraud
    """
    request = CreateVersion(
        project=project_of(terminal, project),
        model=model,
        holder=holder,
        folder=folder,
        run="" if holder.startswith("m-") else holder,
        description=description,
        tags=_tags(tag),
    )
    terminal.run(CREATE_VERSION, request, _version)


@commands.command("delete")
def delete(
    terminal: Terminal,
    model: OfModel,
    version: Annotated[str, typer.Argument(help="One version; all of it by default.", show_default=False)] = "",
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Delete a version, or the model with all its versions; not while an alias points there.

    Example: falaj model delete card-fraud 3 --yes --project fraud
    """
    chosen = project_of(terminal, project)
    if version:
        meant = _meant(terminal, chosen, model, version)
        terminal.confirm(f"Delete version {meant.version} of {model}? There is no way back.", yes)
        terminal.run(DELETE_VERSION, meant, sentence(lambda _: f"Version {meant.version} of {model} is gone."))
        return
    terminal.confirm(f"Delete {model} with all its versions? There is no way back.", yes)
    terminal.run(DELETE_MODEL, OneModel(project=chosen, model=model), sentence(lambda _: f"{model} is gone."))


@commands.command("files")
def files(
    terminal: Terminal, model: OfModel, version: OfVersion, project: InProject = "", limit: Limit = 1000, cursor: Cursor = ""
) -> None:
    """List a version's files with their sizes and digests.

    Example: falaj model files card-fraud 3 --project fraud
    """
    meant = _meant(terminal, project_of(terminal, project), model, version)
    request = ListVersionFiles(project=meant.project, model=model, version=meant.version, limit=limit, cursor=cursor)
    terminal.run(LIST_VERSION_FILES, request, listing("name", "size", "digest"))


@commands.command("download")
def download(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    directory: Annotated[Path, typer.Argument(help="The directory to write the files to.", show_default=False)],
    signature: Annotated[bool, typer.Option("--signature", help="Also its signature, as model.sig.")] = False,
    project: InProject = "",
) -> None:
    """Read all files of a version. Each is written only when it arrived whole and its digest agrees.

    Example: falaj model download card-fraud champion ./model --project fraud
    """
    meant = _meant(terminal, project_of(terminal, project), model, version)
    found = list(_files(terminal, meant))
    size = 0
    for one in found:
        target = directory.joinpath(*PurePosixPath(one.name).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        request = GetVersionFile(project=meant.project, model=model, version=meant.version, name=one.name)
        answer = terminal.call(GET_VERSION_FILE, request, patience=PATIENCE)
        size += save(watched(agreeing(answer.chunks, one.digest), one.size, one.name), str(target))
    if signature:
        directory.mkdir(parents=True, exist_ok=True)
        save(terminal.call(GET_SIGNATURE, meant).chunks, str(directory / "model.sig"))
    told = {"directory": str(directory), "version": meant.version, "files": len(found), "size": size}
    terminal.told(told, f"Wrote {len(found)} files, {size:,} bytes, of version {meant.version} to {directory}.")


@commands.command("sbom")
def sbom(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    file: Annotated[str, typer.Argument(help=TARGET, show_default=False)] = STANDARD,
    project: InProject = "",
) -> None:
    """Write a version's software bill of materials, CycloneDX JSON.

    Example: falaj model sbom card-fraud champion bom.json --project fraud
    """
    answer = terminal.call(GET_SBOM, _meant(terminal, project_of(terminal, project), model, version))
    size = save(answer.chunks, file)
    terminal.told({"file": file, "size": size}, f"Wrote {size:,} bytes to {file}.", file)


@commands.command("verify")
def verify(terminal: Terminal, model: OfModel, version: OfVersion, project: InProject = "") -> None:
    """Verify a version's signature and the bytes of every file; the exit status is 1 when something is wrong.

    Example: falaj model verify card-fraud champion --project fraud
    """
    meant = _meant(terminal, project_of(terminal, project), model, version)
    verification = terminal.call(VERIFY_VERSION, meant, patience=PATIENCE)
    terminal.show(verification, _verification)
    if not verification.ok:
        raise typer.Exit(1)


@commands.command("servable")
def servable(terminal: Terminal, model: OfModel, version: OfVersion, project: InProject = "") -> None:
    """Say whether a version can be served, as it is or converted, and if not, why; the exit status is 1 when it cannot.

    Example: falaj model servable card-fraud 3 --project fraud
    """
    check = terminal.call(CHECK_SERVABLE, _meant(terminal, project_of(terminal, project), model, version))
    terminal.show(check, _servable)
    if not (check.ok or check.convertible):
        raise typer.Exit(1)


@commands.command("diff")
def diff(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    other: Annotated[str, typer.Argument(help="The version to compare it with, by number or alias.", show_default=False)],
    project: InProject = "",
) -> None:
    """Compare two versions: files, signature, parameters, metrics and data.

    Example: falaj model diff card-fraud champion 4 --project fraud
    """
    chosen = project_of(terminal, project)
    first, second = (version_of(terminal, chosen, model, said) for said in (version, other))
    terminal.run(DIFF_VERSIONS, DiffVersions(project=chosen, model=model, version=first, other=second), _diff)


@commands.command("lineage")
def of_version(
    terminal: Terminal, model: OfModel, version: OfVersion, depth: lineage.Depth = 10, project: InProject = ""
) -> None:
    """Draw what a version came from and what came from it: data, runs, models.

    Example: falaj model lineage card-fraud champion --project fraud
    """
    chosen = project_of(terminal, project)
    found = terminal.call(SHOW_VERSION, _meant(terminal, chosen, model, version))
    lineage.draw(terminal, chosen, "version", found.id, depth)


@commands.command("story")
def story(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    out: Annotated[
        str, typer.Option(help="Write one HTML file to send on instead; - is standard output.", show_default=False)
    ] = "",
    project: InProject = "",
) -> None:
    """Tell a version's story: its data, its run, gates, approvals, traffic, alerts and cost, and what the ledger proves of it.

    The file needs nothing else and runs nothing; every proof is in it.

    Example: falaj model story card-fraud champion --out story.html --project fraud
    """
    meant = _meant(terminal, project_of(terminal, project), model, version)
    request = stories.ReadStory(project=meant.project, model=meant.model, version=meant.version)
    found = terminal.call(stories.READ_STORY, request, patience=PATIENCE)
    if not out:
        terminal.show(found, model_story.summary)
        return
    written = save([story_file.whole(found).encode()], out)
    terminal.told({"written": out, "bytes": written}, f"Written to {out}.", file=out)


def _meant(terminal: Terminal, project: str, model: str, version: str) -> OneVersion:
    return OneVersion(project=project, model=model, version=version_of(terminal, project, model, version))


def _tags(pairs: list[str] | None) -> tuple[ModelTag, ...]:
    return tuple(ModelTag(key=key, value=text) for key, text in map(pair_of, pairs or ()))


def _files(terminal: Terminal, version: OneVersion) -> Iterator[VersionFile]:
    cursor = ""
    while True:
        request = ListVersionFiles(project=version.project, model=version.model, version=version.version, cursor=cursor)
        page = terminal.call(LIST_VERSION_FILES, request)
        yield from page.items
        cursor = page.next
        if not cursor:
            return


def _models(layout: Layout, page: Models) -> None:
    columns = ["name", "versions", "aliases", "changed", "description"]
    layout.table(columns, ([one.name, one.versions, _aliases(one), one.changed, one.description] for one in page.items))
    tell_of_more(page)


def _aliases(model: Model) -> str:
    return ", ".join(f"{alias.alias}={alias.version}" for alias in model.aliases)


def _model(layout: Layout, model: Model) -> None:
    layout.pairs(
        [
            ("name", model.name),
            ("description", model.description),
            ("versions", model.versions),
            *((f"alias {alias.alias}", f"version {alias.version}") for alias in model.aliases),
            *((f"stage {one.stage}", f"version {one.version}") for one in model.latest if one.stage != "None"),
            *((f"tag {tag.key}", tag.value) for tag in model.tags),
            ("created", model.created),
            ("created by", model.created_by),
            ("changed", model.changed),
        ]
    )


def _versions(layout: Layout, page: Versions) -> None:
    columns: tuple[str, ...] = ("version", "aliases", "stage", "runtime", "servable", "signed", "size", "run", "created")
    rows = [[_how_served(one) if column == "servable" else getattr(one, column) for column in columns] for one in page.items]
    replays = [next((tag.value for tag in one.tags if tag.key == REPLAY_OF), "") for one in page.items]
    if any(replays):
        columns, rows = (*columns, "replay of"), [[*row, of] for row, of in zip(rows, replays, strict=True)]
    layout.table(columns, rows)
    tell_of_more(page)


def _how_served(version: Version) -> str:
    return "yes" if version.servable else "converted" if version.convertible else "no"


def _version(layout: Layout, version: Version) -> None:
    layout.pairs(
        [
            ("model", version.model),
            ("version", version.version),
            ("id", version.id),
            ("aliases", version.aliases),
            ("stage", version.stage),
            ("description", version.description),
            ("source", version.source),
            ("run", version.run),
            ("logged model", version.logged_model),
            ("files", version.files),
            ("size", version.size),
            ("digest", version.digest),
            ("signed", version.signed),
            ("servable", _how_served(version)),
            ("runtime", version.runtime),
            ("flavors", version.flavors),
            ("inputs", version.inputs),
            ("outputs", version.outputs),
            *((f"tag {tag.key}", tag.value) for tag in version.tags),
            ("created", version.created),
            ("created by", version.created_by),
        ]
    )


def _verification(layout: Layout, it: Verification) -> None:
    if it.ok:
        layout.line(
            f"Version {it.version} of {it.model} is what was signed: {it.files} files, {it.size:,} bytes.", style="green"
        )
        layout.pairs([("key", it.key)])
        return
    layout.line(f"Version {it.version} of {it.model} does not verify.", style="bold red")
    for problem in it.problems:
        layout.line(f"- {problem}")


def _servable(layout: Layout, it: ServableCheck) -> None:
    if it.ok:
        layout.line(f"Version {it.version} of {it.model} can be served, by {it.runtime}.")
    elif it.convertible:
        layout.line(f"Version {it.version} of {it.model} is converted by `falaj deploy`, for it cannot be served as it is:")
    else:
        layout.line(f"Version {it.version} of {it.model} cannot be served:")
    for reason in it.reasons:
        layout.line(f"- {reason}")


def _diff(layout: Layout, diff: VersionDiff) -> None:
    rows: list[list[object]] = [["file", one.name, one.size, one.other_size] for one in diff.files]
    rows += [["signature", one.key, one.value, one.other] for one in diff.signature]
    rows += [["param", one.key, one.value, one.other] for one in diff.params]
    rows += [["metric", one.key, rounded(one.value), rounded(one.other)] for one in diff.metrics]
    before, after = ({data.name: data.digest for data in side} for side in (diff.data_before, diff.data_after))
    names = sorted(name for name in before | after if before.get(name) != after.get(name))
    rows += [["data", name, before.get(name), after.get(name)] for name in names]
    if not rows:
        layout.line("Nothing differs between them.")
        return
    layout.table(["", "", f"version {diff.version.version}", f"version {diff.other.version}"], rows)
