"""`falaj tune`: search for the parameters that do best, each trial a job under the queue's share."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import value
from falaj.cli.amounts import seconds_of
from falaj.cli.choosing import InProject, pair_of, project_of
from falaj.cli.command import Commands, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.following import INTERRUPTED
from falaj.cli.job_options import JobOptions, digest_of, send_source
from falaj.cli.job_plans import begun, planned
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.cli.trials import show_study, study_document
from falaj.jobs.operations.jobs import SUBMIT_JOB, Submit

if TYPE_CHECKING:
    from falaj.client.tuning import best as registering
    from falaj.client.tuning import conductor, ending_studies, planning, records, standings
    from falaj.client.tuning import jobs as trial_jobs
    from falaj.training.launchers import choosing as launchers
    from falaj.training.launchers import reading as readings
    from falaj.training.launchers import travelling
    from falaj.training.search import spaces, stopping, studies, written
else:
    launchers, readings = Deferred("falaj.training.launchers.choosing"), Deferred("falaj.training.launchers.reading")
    travelling = Deferred("falaj.training.launchers.travelling")
    trial_jobs = Deferred("falaj.client.tuning.jobs")
    registering, conductor = Deferred("falaj.client.tuning.best"), Deferred("falaj.client.tuning.conductor")
    planning, records = Deferred("falaj.client.tuning.planning"), Deferred("falaj.client.tuning.records")
    ending_studies, standings = Deferred("falaj.client.tuning.ending_studies"), Deferred("falaj.client.tuning.standings")
    spaces, stopping = Deferred("falaj.training.search.spaces"), Deferred("falaj.training.search.stopping")
    studies, written = Deferred("falaj.training.search.studies"), Deferred("falaj.training.search.written")

commands = Commands("Studies: search for the parameters that do best, each trial a job under the queue's share.")


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


SETS = "A parameter and what may be tried: lr=log:1e-5..1e-1, layers=1..4, act=relu,tanh. Repeatable."
FROM = "Learn from this study. Repeatable."
OfStudy = Annotated[str, typer.Argument(help="The study's name.", show_default=False)]
Register = Annotated[str, _none("Make the best trial's model a version of this registered model.", metavar="MODEL")]


@value
class LimitOptions:
    """When a study ends. What is left out is as it was."""

    trials: Annotated[int | None, _none("So many in all; 20 where nobody said.", min=1)] = None
    parallel: Annotated[int | None, _none("So many at once; 1 where nobody said.", min=1)] = None
    patience: Annotated[int | None, _none("It ends after so many trials without a better one; 0 for never.", min=0)] = None
    span: Annotated[
        str, typer.Option("--for", help="It ends after so long, such as 2h.", metavar="SPAN", show_default=False)
    ] = ""
    target: Annotated[float | None, _none("It ends when the metric is as good as this.")] = None

    def on(self, given: "stopping.Limits") -> "stopping.Limits":
        said = {"trials": self.trials, "parallel": self.parallel, "patience": self.patience, "target": self.target}
        wished: dict[str, Any] = {name: wish for name, wish in said.items() if wish is not None}
        if self.span:
            wished["seconds"] = float(seconds_of(self.span))
        return replace(given, **wished)


@value
class TrialOptions(JobOptions):
    """A trial that fails is a failed trial: the next one tries something else."""

    name: Annotated[str, _none("What to call the study; tune- and the script's name by default.")] = ""
    experiment: Annotated[str, typer.Option(hidden=True, help="A study is an experiment of its own: say --name.")] = ""
    retries: Annotated[
        int, typer.Option(help="So many tries of a trial after one that failed; a lost host or making room costs none.", min=0)
    ] = 0
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say where, when and at what cost the first trial would run.")
    ] = False
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Lead it here and say what becomes of each trial, or by a job.")
    ] = True


@commands.command("run")
def run(
    terminal: Terminal,
    command: Annotated[
        list[str], typer.Argument(help="The script or program and its arguments, after --.", show_default=False)
    ],
    settings: Annotated[list[str] | None, typer.Option("--set", help=SETS, metavar="PAIR", show_default=False)] = None,
    metric: Annotated[
        list[str] | None, _none("What decides, and which way: val_loss:min, accuracy:max. Repeatable.", metavar="METRIC")
    ] = None,
    sampler: Annotated[
        Literal["tpe", "gp", "cma", "grid", "random"], typer.Option(help="What chooses the next to try.")
    ] = "tpe",
    pruner: Annotated[
        Literal["none", "asha", "median", "hyperband"],
        typer.Option(help="What gives up trials that do worse than others did by the same step."),
    ] = "none",
    warmup: Annotated[int, _none("Steps before the pruner may give one up.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="The same seed, trials and results lead to the same next trial.", min=0)] = 0,
    learn: Annotated[list[str] | None, typer.Option("--from", help=FROM, metavar="STUDY", show_default=False)] = None,
    no_arguments: Annotated[
        bool, typer.Option("--no-arguments", help="Say parameters in FALAJ_PARAMS alone, not as --name value.")
    ] = False,
    register: Register = "",
    source: Annotated[Path, typer.Option(help="The folder it runs in; a copy of it is sent.")] = Path(),
    no_source: Annotated[bool, typer.Option("--no-source", help="Send no files.")] = False,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Asked to stop, a trial saves what it did, and goes on from there.")
    ] = False,
    yes: Yes = False,
    *,
    limits: LimitOptions,
    options: TrialOptions,
) -> None:
    """Search: begin a study, or go on with the one of that name, as it was begun.

    Example: falaj tune run --set lr=log:1e-5..1e-1 --metric val_loss:min --trials 30 --parallel 4 -- train.py
    """
    if options.experiment:
        raise Invalid("A study is an experiment of its own: say --name instead of --experiment.")
    study = studies.Study(
        name=options.name or f"tune-{_script(command)}",
        space=spaces.read_space(_once_each(settings or [])),
        objectives=tuple(studies.read_objective(text) for text in metric or ()),
        sampler=sampler,
        pruner=pruner,
        warmup=warmup,
        seed=seed,
    )
    for one in spaces.fixed(study.space):
        terminal.say(f"{one.name} has one value, {one.told()}: every trial is given it, and it is not searched.")
    kept_by = records.Records(terminal.client, project_of(terminal, options.project))
    there, place = kept_by.find(study.name), None if no_source else source
    whole, besides = _started(command, place, options)
    wished = planning.Wish(
        study=study,
        job=options.spec(name="", command=whole, checkpoints=checkpoints),
        limits=limits.on(stopping.Limits() if there is None else there.limits),
        arguments=not no_arguments,
    )
    kept, plan = planning.planned(kept_by, wished, there, learn or ())
    if options.dry_run:
        terminal.show(plan, planned)
        return
    if there is None:
        digest = "" if place is None else send_source(terminal, kept_by.project, place, options.zone, besides)
        begun_study = kept_by.create(_with_files(kept, digest))
    else:
        wanted = _with_files(kept, "" if place is None else digest_of(place, besides))
        _tell_of_earlier(terminal, wanted, there)
        _agree(terminal, kept_by, there, trial_jobs.fingerprint(wanted), yes)
        _agree_on_limits(terminal, kept_by, there, limits, yes)
        begun_study = planning.resumed(kept_by, there, kept.limits)
    _lead(terminal, kept_by, begun_study, register, options.follow)


@commands.command("resume")
def resume(
    terminal: Terminal,
    study: OfStudy,
    register: Register = "",
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Lead it here and say what becomes of each trial, or by a job.")
    ] = True,
    project: InProject = "",
    agreed: Annotated[str, typer.Option(hidden=True, help="The job that was agreed to, by its fingerprint.")] = "",
    yes: Yes = False,
    *,
    limits: LimitOptions,
) -> None:
    """Go on with a study, whatever ended it; several may lead one study at once. Asks first where its trials would run what
    you have not had run by it before.

    Example: falaj tune resume tune-train --trials 60
    """
    kept_by = records.Records(terminal.client, project_of(terminal, project))
    kept = planning.required(kept_by, study)
    _agree(terminal, kept_by, kept, agreed, yes)
    _agree_on_limits(terminal, kept_by, kept, limits, yes)
    going = planning.resumed(kept_by, kept, limits.on(kept.limits))
    terminal.say(f"It goes on until {going.limits}.")
    _lead(terminal, kept_by, going, register, follow)


@commands.command("list")
def list_studies(terminal: Terminal, project: InProject = "") -> None:
    """List the studies of a project, newest first: running, waiting, interrupted, stopped, done or given up.

    Example: falaj tune list --project fraud
    """
    kept_by = records.Records(terminal.client, project_of(terminal, project))
    found = [(one, _standing(kept_by, one)) for one in kept_by.every()]
    if terminal.as_json:
        terminal.print_json(
            [
                {"name": one.study.name, "experiment": one.experiment, "state": at.state, "over": at.over, "trials": at.most}
                for one, at in found
            ]
        )
        return
    rows = [
        (
            one.experiment,
            one.study.name,
            at.state,
            f"{at.over} of {at.most}",
            ", ".join(f"{each.metric}:{each.direction}" for each in one.study.objectives),
            one.study.sampler,
            one.study.pruner,
            one.created,
        )
        for one, at in found
    ]
    Layout().table(("number", "study", "state", "trials", "metric", "sampler", "pruner", "created"), rows)


@commands.command("show")
def show(terminal: Terminal, study: OfStudy, project: InProject = "") -> None:
    """Show a study: every trial, the best of them, and what each parameter weighs.

    Example: falaj tune show tune-train --project fraud
    """
    kept_by = records.Records(terminal.client, project_of(terminal, project))
    kept = planning.required(kept_by, study)
    found = [one.trial for one in kept_by.trials(kept, state="active")]
    at, leading = standings.standing(kept, found), registering.leading(kept_by, kept, found, terminal.say)
    if terminal.as_json:
        document = study_document(kept.study, found, kept.importance, leading)
        terminal.print_json({**document, "state": at.state, "words": at.words})
    else:
        Layout().line(f"{kept.study.name}: {at}. {at.words}".strip())
        show_study(Layout(), kept.study, found, kept.importance, leading)


@commands.command("best")
def best(terminal: Terminal, study: OfStudy, register: Register = "", project: InProject = "") -> None:
    """Say which trial did best, or which none beats where several metrics decide; make its model a version.

    Example: falaj tune best tune-train --register card-fraud
    """
    kept_by = records.Records(terminal.client, project_of(terminal, project))
    kept = planning.required(kept_by, study)
    found = [one.trial for one in kept_by.trials(kept, state="active")]
    leading = registering.leading(kept_by, kept, found, terminal.say)
    if not leading:
        raise NotFound(f"No trial of {study!r} is complete yet.")
    if terminal.as_json and not register:
        terminal.print_json(study_document(kept.study, leading, kept.importance, leading)["trials"])
    elif not register:
        show_study(Layout(), kept.study, leading, {}, leading)
    else:
        _register(terminal, kept_by, kept, leading, register)


@commands.command("stop")
def stop(terminal: Terminal, study: OfStudy, yes: Yes = False, project: InProject = "") -> None:
    """End a study and cancel the trials that run; `falaj tune resume` goes on with it.

    Example: falaj tune stop tune-train --yes
    """
    kept_by = records.Records(terminal.client, project_of(terminal, project))
    found = planning.required_experiment(kept_by, study)
    terminal.confirm(f"Stop the study {study} and cancel its trials?", yes)
    ended = ending_studies.stop(kept_by, found)
    terminal.told({"study": study, "trials": ended}, f"{study} is stopped with {ended} trials. {_go_on(study)}")


def _script(command: list[str]) -> str:
    return next((Path(word).stem for word in command if word.endswith((".py", ".sh"))), Path(command[0]).name)


def _started(command: list[str], source: Path | None, options: JobOptions) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """A script that is named alone is started as `falaj train` does it: the whole command, and what travels along."""
    script, *arguments = command
    if not script.endswith(".py"):
        return tuple(command), {}
    if source is None:
        return ("python", *command), {}
    place = source / script
    reading = readings.read_text(readings.text_of(place), script, place.parent, source)
    wishes = launchers.Wishes(cpus=options.cpus, gpus=options.gpus, grace=options.grace)
    return launchers.choose(reading, tuple(arguments), wishes).command, travelling.companions()


def _standing(kept_by: "records.Records", kept: "records.Kept") -> "standings.Standing":
    return standings.standing(kept, [one.trial for one in kept_by.trials(kept, state="active")])


def _with_files(kept: "records.Kept", digest: str) -> "records.Kept":
    return replace(kept, job=replace(kept.job, source=digest))


def _tell_of_earlier(terminal: Terminal, wanted: "records.Kept", there: "records.Kept") -> None:
    """A study stays what it was begun as; whatever is said anew and does not count is told."""
    told = [f"The study {there.study.name} is there and goes on as it was begun; nothing is sent."]
    if wanted.job.source != there.job.source:
        told.append("Its files, and what goes along with them, are those it was begun with, not the ones here.")
    if others := planning.left_aside(wanted, there):
        told.append(f"What is said otherwise now does not count: {', '.join(others)}.")
    terminal.say(" ".join(told))


def _once_each(settings: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, text in map(pair_of, settings):
        if name in given:
            raise Invalid(f"{name} is set twice; say all of its values at once.")
        given[name] = text
    return given


def _agree(terminal: Terminal, kept_by: "records.Records", kept: "records.Kept", agreed: str, yes: bool) -> None:
    """What a study runs, its tags say, and others write those: it is run in nobody's name who did not want it."""
    if not yes and not planning.is_agreed(kept_by, kept, agreed):
        name = kept.study.name
        terminal.confirm(f"The trials of {name!r} run {planning.told(kept)}, which you have not had run by it. Run it?", yes)


def _agree_on_limits(
    terminal: Terminal, kept_by: "records.Records", kept: "records.Kept", said: LimitOptions, yes: bool
) -> None:
    """How far it goes, its tags say as well: by their word alone a few trials are begun, and no more."""
    limits = said.on(kept.limits)
    if yes or said.trials is not None or limits.trials <= planning.UNASKED:
        return
    more = planning.more_trials(kept_by, kept, limits)
    if more > planning.UNASKED:
        terminal.confirm(f"{kept.study.name!r} goes on until {limits}: {more:,} more than there are. Begin them?", yes)


def _lead(terminal: Terminal, kept_by: "records.Records", kept: "records.Kept", register: str, follow: bool) -> None:
    name = kept.study.name
    if not follow:
        spec = trial_jobs.conductor_of(kept, kept_by.project, register)
        made = terminal.call(SUBMIT_JOB, Submit(project=kept_by.project, spec=spec))
        begun(terminal, kept_by.project, made, follow=False)
        return
    try:
        leader = conductor.Conductor(kept_by, kept, kept.limits, say=terminal.say)
        outcome = leader.run()
    except KeyboardInterrupt:
        terminal.say(f"The trials that run go on. {_go_on(name)}")
        raise typer.Exit(INTERRUPTED) from None
    weights = leader.importances()
    kept_by.mark(kept.experiment, written.IMPORTANCE, json.dumps(weights))
    leading = registering.leading(kept_by, kept, outcome.trials, terminal.say)
    kept_by.end(kept, written.End(state="done" if leading and not outcome.hopeless else "given up", words=outcome.words))
    terminal.say(outcome.words)
    if outcome.hopeless:
        raise Conflict(f"The study {name!r} was stopped. {outcome.words} Look at one: falaj job logs {_failed(outcome.trials)}")
    if terminal.as_json:
        terminal.print_json(study_document(kept.study, outcome.trials, weights, leading))
    else:
        show_study(Layout(), kept.study, outcome.trials, weights, leading)
    if not leading:
        raise NotFound(f"No trial of {name!r} is complete.")
    if register:
        _register(terminal, kept_by, kept, leading, register)


def _register(
    terminal: Terminal, kept_by: "records.Records", kept: "records.Kept", leading: "list[studies.Trial]", model: str
) -> None:
    if len(leading) > 1:
        numbers = ", ".join(str(one.number) for one in leading)
        terminal.say(f"None of the trials {numbers} beats the others; the first is registered.")
    made = registering.register(kept_by, kept.study.name, leading[0], model)
    words = f"Trial {leading[0].number} is version {made.version} of {made.model}."
    if terminal.as_json:
        terminal.say(words)
    else:
        Layout().line(words)


def _failed(trials: "tuple[studies.Trial, ...]") -> str:
    return next((one.job[-8:] for one in trials if one.state == "failed" and one.job), "")


def _go_on(study: str) -> str:
    name = shlex.quote(study)
    return f"Go on with: falaj tune resume {f'-- {name}' if study.startswith('-') else name}"
