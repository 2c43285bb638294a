"""What people mean by what they typed: which project where they left it out, which experiment, version, moment."""

import re
from collections.abc import Callable
from typing import Annotated

import typer

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, NotFound
from falaj.cli.terminal import Terminal
from falaj.governance.projects.operations import LIST_PROJECTS, ListProjects
from falaj.registry.operations.models import SHOW_MODEL, OneModel
from falaj.registry.operations.versions import SEARCH_VERSIONS, SHOW_VERSION, OneVersion, SearchVersions
from falaj.tracking.operations.experiments import FIND_EXPERIMENT, SHOW_EXPERIMENT, FindExperiment, OneExperiment

ID = re.compile("[0-9a-f]{32}")
LOGGED_MODEL = re.compile("m-[0-9a-f]{32}")


def id_of(what: str, given: str) -> str:
    """An id as the platform writes it, which people may have copied in capitals."""
    lowered = given.strip().lower()
    if not ID.fullmatch(lowered):
        raise Invalid(f"{given!r} is no {what}'s id; an id has 32 hexadecimal digits.")
    return lowered


def an_id(what: str) -> Callable[[str], str]:
    """For an argument that is an id: what cannot be one is told before anything is sent."""
    return lambda given: id_of(what, given)


def ids(what: str) -> Callable[[list[str]], list[str]]:
    return lambda given: [id_of(what, one) for one in given]


def holder_of(given: str) -> str:
    """The id of what has files: a run, or a logged model."""
    lowered = given.strip().lower()
    if not (ID.fullmatch(lowered) or LOGGED_MODEL.fullmatch(lowered)):
        raise Invalid(
            f"{given!r} is no id of a run or a logged model; such an id has 32 hexadecimal digits, after m- a logged model's."
        )
    return lowered


InProject = Annotated[
    str,
    typer.Option(
        "--project", "-p", help="The project.", envvar="FALAJ_PROJECT", show_envvar=False,
        show_default="$FALAJ_PROJECT, or the only one you are in",
    ),
]  # fmt: skip
OfExperiment = Annotated[str, typer.Argument(help="The experiment's number or name.", show_default=False)]
OfModel = Annotated[str, typer.Argument(help="The registered model's name.", show_default=False)]
OfVersion = Annotated[str, typer.Argument(help="The version's number, or an alias of it.", show_default=False)]
OfThing = Annotated[
    str,
    typer.Argument(
        help="An experiment's number or name, a run's id, a registered model's name, a version like MODEL/3 or MODEL@champion.",
        show_default=False,
    ),
]
NAMED_AT_MOST = 5


def project_of(terminal: Terminal, given: str) -> str:
    """The project that was named, or else the only one the caller is in."""
    if given:
        return given
    found = [project.name for project in terminal.call(LIST_PROJECTS, ListProjects(limit=NAMED_AT_MOST + 1)).items]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Invalid("You are in no project yet; an administrator adds you with `falaj project member add`.")
    named = ", ".join(found[:NAMED_AT_MOST]) + (" and others" if len(found) > NAMED_AT_MOST else "")
    raise Invalid(f"You are in several projects ({named}): say which with --project, or set FALAJ_PROJECT.")


def experiment_of(terminal: Terminal, project: str, given: str) -> int:
    """The experiment's number, whichever way it was named."""
    if given.isascii() and given.isdigit():
        return int(given)
    return terminal.call(FIND_EXPERIMENT, FindExperiment(project=project, name=given)).id


def known_experiment_of(terminal: Terminal, project: str, given: str) -> int:
    """The number of an experiment that is there, for questions to which one that is not would have an empty answer."""
    if given.isascii() and given.isdigit():
        return terminal.call(SHOW_EXPERIMENT, OneExperiment(project=project, experiment=int(given))).id
    return experiment_of(terminal, project, given)


def version_of(terminal: Terminal, project: str, model: str, given: str) -> int:
    """The version's number, where it may be named by an alias: `champion` or `@champion`."""
    if given.isascii() and given.isdigit():
        return int(given)
    known = terminal.call(SHOW_MODEL, OneModel(project=project, model=model)).aliases
    for alias in known:
        if alias.alias == given.removeprefix("@"):
            return alias.version
    others = ", ".join(alias.alias for alias in known) or "none"
    raise NotFound(f"{given!r} is neither a number nor an alias of {model}; its aliases: {others}.")


def version_id_of(terminal: Terminal, project: str, given: str) -> str:
    """The version's id, where it may be named `MODEL/3` or `MODEL@champion`."""
    for mark in "/@":
        model, found, version = given.rpartition(mark)
        if found and model:
            number = version_of(terminal, project, model, version)
            return terminal.call(SHOW_VERSION, OneVersion(project=project, model=model, version=number)).id
    if not ID.fullmatch(given.strip().lower()):
        raise Invalid(f"{given!r} is no version; write it like MODEL/3 or MODEL@champion, or give its id.")
    return id_of("version", given)


def newest_version_of(terminal: Terminal, project: str, model: str) -> str:
    """The id of a registered model's newest version."""
    name = terminal.call(SHOW_MODEL, OneModel(project=project, model=model)).name  # a name that is misspelled is told
    quoted = name.replace("'", "''")
    request = SearchVersions(project=project, filter=f"name = '{quoted}'", order=("version_number DESC",), limit=1)
    for version in terminal.call(SEARCH_VERSIONS, request).items:
        terminal.say(f"{name} is a registered model; this is its newest version, {name}/{version.version}.")
        return version.id
    raise NotFound(f"The registered model {name} has no version yet.")


def thing_of(terminal: Terminal, project: str, kind: str, given: str) -> str:
    """The id of what is talked about, where people name it as they know it."""
    if kind == "experiment":
        return str(experiment_of(terminal, project, given))
    if kind == "version":
        return version_id_of(terminal, project, given)
    if kind == "model":
        return terminal.call(SHOW_MODEL, OneModel(project=project, model=given)).id
    return id_of(kind, given)


def moment_of(text: str) -> Moment:
    try:
        return Moment.parse(text)
    except ValueError as error:
        raise Invalid(
            f"{error}." if "time zone" in str(error) else f"{text!r} is no time; write it like 2026-11-15T09:30:00Z."
        ) from None


def pair_of(text: str) -> tuple[str, str]:
    """`key=value`; the value may hold further `=`."""
    key, equals, rest = text.partition("=")
    if not key or not equals:
        raise Invalid(f"{text!r} is no pair; write it like key=value.")
    return key, rest


def day_of(milliseconds: int | None) -> str:
    """A client's time, which may be anything that fits into 63 bits, in words."""
    if milliseconds is None:
        return "-"
    moment = Moment(milliseconds * 1000)
    try:
        return str(moment)[:19] + "Z"
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
