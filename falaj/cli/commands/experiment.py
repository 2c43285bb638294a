"""`falaj experiment`: the experiments of a project."""

from typing import Annotated

import typer

from falaj.cli.choosing import InProject, OfExperiment, experiment_of, pair_of, project_of
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, listing, sentence
from falaj.cli.terminal import Terminal
from falaj.tracking.operations.experiments import (
    CREATE_EXPERIMENT,
    DELETE_EXPERIMENT,
    RENAME_EXPERIMENT,
    RESTORE_EXPERIMENT,
    SEARCH_EXPERIMENTS,
    SHOW_EXPERIMENT,
    TAG_EXPERIMENT,
    UNTAG_EXPERIMENT,
    CreateExperiment,
    Experiment,
    OneExperiment,
    RenameExperiment,
    SearchExperiments,
    TagExperiment,
    UntagExperiment,
)
from falaj.tracking.operations.words import State, Tag

commands = Commands("Experiments: named folders of runs. For A/B tests of endpoints, see `falaj abtest`.")
Title = Annotated[str, typer.Argument(help="The experiment's name.", show_default=False)]
FILTER = "Only these, in MLflow's language, e.g. \"name LIKE 'fraud%'\"."
ORDER = 'What to order by, e.g. "name ASC". Repeatable.'


@commands.command("create")
def create(
    terminal: Terminal,
    name: Title,
    tag: Annotated[list[str] | None, typer.Option(help="A tag, key=value. Repeatable.", metavar="PAIR")] = None,
    project: InProject = "",
) -> None:
    """Create an experiment.

    Example: falaj experiment create "card fraud" --tag team=risk --project fraud
    """
    tags = tuple(Tag(key=key, value=text) for key, text in map(pair_of, tag or ()))
    terminal.run(CREATE_EXPERIMENT, CreateExperiment(project=project_of(terminal, project), name=name, tags=tags), _one)


@commands.command("list")
def list_experiments(
    terminal: Terminal,
    filter: Annotated[str, typer.Option(help=FILTER, show_default=False)] = "",
    order: Annotated[list[str] | None, typer.Option(help=ORDER, metavar="ORDER")] = None,
    state: Annotated[State, typer.Option(help="Which: those in use, the deleted, or all.")] = "active",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List the experiments of a project, newest first.

    Example: falaj experiment list --filter "name LIKE 'fraud%'" --project fraud
    """
    request = SearchExperiments(
        project=project_of(terminal, project),
        filter=filter,
        order=tuple(order or ()),
        state=state,
        limit=limit,
        cursor=cursor,
    )
    terminal.run(SEARCH_EXPERIMENTS, request, listing("id", "name", "created", "changed", "deleted"))


@commands.command("show")
def show(terminal: Terminal, experiment: OfExperiment, project: InProject = "") -> None:
    """Show an experiment and its tags.

    Example: falaj experiment show "card fraud" --project fraud
    """
    terminal.run(SHOW_EXPERIMENT, _meant(terminal, project, experiment), _one)


@commands.command("rename")
def rename(terminal: Terminal, experiment: OfExperiment, name: Title, project: InProject = "") -> None:
    """Give an experiment another name.

    Example: falaj experiment rename 3 "card fraud 2027" --project fraud
    """
    meant = _meant(terminal, project, experiment)
    terminal.run(RENAME_EXPERIMENT, RenameExperiment(project=meant.project, experiment=meant.experiment, name=name), _one)


@commands.command("tag")
def tag(
    terminal: Terminal,
    experiment: OfExperiment,
    pair: Annotated[str, typer.Argument(help="key=value; key= alone removes the tag.", show_default=False)],
    project: InProject = "",
) -> None:
    """Set or remove a tag of an experiment; `mlflow.note.content` is its note.

    Example: falaj experiment tag 3 team=risk --project fraud
    """
    meant = _meant(terminal, project, experiment)
    key, text = pair_of(pair)
    if text:
        request = TagExperiment(project=meant.project, experiment=meant.experiment, key=key, value=text)
        terminal.run(TAG_EXPERIMENT, request, sentence(lambda _: f"Tag {key} is set."))
    else:
        removal = UntagExperiment(project=meant.project, experiment=meant.experiment, key=key)
        terminal.run(UNTAG_EXPERIMENT, removal, sentence(lambda _: f"Tag {key} is removed."))


@commands.command("delete")
def delete(terminal: Terminal, experiment: OfExperiment, project: InProject = "") -> None:
    """Hide an experiment and its runs; `restore` brings them back. It keeps its name, and so does a study.

    Example: falaj experiment delete 3 --project fraud
    """
    meant = _meant(terminal, project, experiment)
    back = f"`falaj experiment restore {meant.experiment}` brings them back"
    said = sentence(lambda _: f"Experiment {experiment} is hidden with its runs, and keeps its name; {back}.")
    terminal.run(DELETE_EXPERIMENT, meant, said)


@commands.command("restore")
def restore(terminal: Terminal, experiment: OfExperiment, project: InProject = "") -> None:
    """Bring a deleted experiment back, with the runs that went with it.

    Example: falaj experiment restore 3 --project fraud
    """
    said = sentence(lambda _: f"Experiment {experiment} is back.")
    terminal.run(RESTORE_EXPERIMENT, _meant(terminal, project, experiment), said)


def _meant(terminal: Terminal, project: str, experiment: str) -> OneExperiment:
    chosen = project_of(terminal, project)
    return OneExperiment(project=chosen, experiment=experiment_of(terminal, chosen, experiment))


def _one(layout: Layout, experiment: Experiment) -> None:
    layout.pairs(
        [
            ("id", experiment.id),
            ("name", experiment.name),
            ("deleted", experiment.deleted),
            ("created", experiment.created),
            ("created by", experiment.created_by),
            ("changed", experiment.changed),
            *((f"tag {tag.key}", tag.value) for tag in experiment.tags),
        ]
    )
