"""A study as tracking keeps it: an experiment, whose tags say what is searched, and a run for each trial."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import value
from falaj.client.http import Client
from falaj.jobs.operations.jobs import Spec
from falaj.operations.messages import adapter
from falaj.tracking.operations import experiments, runs
from falaj.tracking.operations.words import LONGEST_TAG, Metric, Param, Tag
from falaj.training.search import spaces, written
from falaj.training.search.stopping import Limits
from falaj.training.search.studies import Study, Trial

_AT_ONCE: Final = 1000
_CURVES_AT_ONCE: Final = 50
RUNNING: Final = f"tags.`{written.STATE}` = 'running'"
_CHANGED: Final = "The tags of the study {!r} were changed: they do not say any more how its trials are run."


@value
class Kept:
    """A study and how its trials are run. `earlier` are the experiments of the studies it learns from."""

    experiment: int
    created: Moment
    study: Study
    job: Spec
    arguments: bool
    earlier: tuple[int, ...]
    limits: Limits
    stopped: bool = False
    ended: written.End | None = None
    importance: dict[str, float]


@value
class Seen:
    """A trial with what its run says beyond it."""

    trial: Trial
    status: str
    created: Moment
    created_by: str
    latest: dict[str, Metric]
    claim: str = ""
    hidden: bool = False


class Records:
    """The studies of a project. What it raises is what the platform answers."""

    def __init__(self, client: Client, project: str) -> None:
        self.client, self.project = client, project

    # Studies

    def create(self, kept: Kept) -> Kept:
        """Raises `Conflict` where an experiment of that name is there."""
        job = adapter(Spec).dump_python(kept.job, mode="json", exclude_defaults=True)
        more = {"job": job, "arguments": kept.arguments, "earlier": kept.earlier}
        said = written.study_tags(kept.study, more, LONGEST_TAG) | {written.LIMITS: written.limits_tag(kept.limits)}
        tags = tuple(Tag(key=key, value=text) for key, text in said.items())
        request = experiments.CreateExperiment(project=self.project, name=kept.study.name, tags=tags)
        made = self.client.call(experiments.CREATE_EXPERIMENT, request)
        return replace(kept, experiment=made.id, created=made.created)

    def find(self, name: str) -> Kept | None:
        found = self.experiment(name)
        return None if found is None else read_kept(found)

    def experiment(self, name: str) -> experiments.Experiment | None:
        """Of a study, also where its tags say none any more."""
        request = experiments.FindExperiment(project=self.project, name=name)
        try:
            found = self.client.call(experiments.FIND_EXPERIMENT, request)
        except NotFound:
            return None
        if found.deleted:
            raise Conflict(
                f"The study {name!r} was deleted, and its experiment keeps the name: bring it back with "
                f"`falaj experiment restore {found.id}`, or give a new one another name."
            )
        return found

    def read(self, experiment: int) -> Kept:
        request = experiments.OneExperiment(project=self.project, experiment=experiment)
        return read_kept(self.client.call(experiments.SHOW_EXPERIMENT, request))

    def is_stopped(self, kept: Kept) -> bool:
        request = experiments.OneExperiment(project=self.project, experiment=kept.experiment)
        return any(tag.key == written.STOP for tag in self.client.call(experiments.SHOW_EXPERIMENT, request).tags)

    def every(self) -> Iterator[Kept]:
        cursor = ""
        while True:
            request = experiments.SearchExperiments(
                project=self.project, filter=f"tags.`{written.MARK}.0` LIKE '%'", limit=_AT_ONCE, cursor=cursor
            )
            page = self.client.call(experiments.SEARCH_EXPERIMENTS, request)
            for found in page.items:
                with suppress(Invalid):  # somebody changed its tags; the others are there all the same
                    yield read_kept(found)
            if not (cursor := page.next):
                return

    def mark(self, experiment: int, key: str, text: str) -> None:
        request = experiments.TagExperiment(project=self.project, experiment=experiment, key=key, value=text)
        self.client.call(experiments.TAG_EXPERIMENT, request)

    def stop(self, experiment: int) -> None:
        """Whoever leads it ends it at its next look."""
        self.mark(experiment, written.STOP, "stopped")

    def end(self, kept: Kept, end: written.End) -> None:
        """For whoever looks at it later; it may go on all the same."""
        self.mark(kept.experiment, written.ENDED, written.end_tag(end, LONGEST_TAG))

    def go_on(self, kept: Kept) -> None:
        for key, is_there in ((written.STOP, kept.stopped), (written.ENDED, kept.ended is not None)):
            if is_there:
                request = experiments.UntagExperiment(project=self.project, experiment=kept.experiment, key=key)
                self.client.call(experiments.UNTAG_EXPERIMENT, request)

    def limit(self, kept: Kept, limits: Limits) -> Kept:
        if limits != kept.limits:
            self.mark(kept.experiment, written.LIMITS, written.limits_tag(limits))
        return replace(kept, limits=limits)

    # Trials

    def trials(self, kept: Kept, filter: str = "", *, state: Any = "all") -> list[Seen]:
        """In the order of their numbers; without steps, which `steps` reads."""
        every = (read_run(self.project, kept, run) for run in self.runs(kept.experiment, filter, state=state))
        return sorted((seen for seen in every if seen is not None), key=lambda seen: seen.trial.number)

    def runs(self, experiment: int, filter: str = "", *, state: Any = "all") -> Iterator[runs.Run]:
        cursor = ""
        while True:
            request = runs.SearchRuns(
                project=self.project,
                experiments=(experiment,),
                filter=filter,
                state=state,
                limit=_AT_ONCE,
                cursor=cursor,
            )
            page = self.client.call(runs.SEARCH_RUNS, request)
            yield from page.items
            if not (cursor := page.next):
                return

    def running(self, kept: Kept) -> list[Seen]:
        return self.trials(kept, RUNNING, state="active")

    def trial(self, kept: Kept, run: str) -> Seen | None:
        return read_run(self.project, kept, self.client.call(runs.SHOW_RUN, runs.OneRun(project=self.project, run=run)))

    def with_steps(self, kept: Kept, trials: Sequence[Trial]) -> list[Trial]:
        """What they reported on the way, as pruning needs it."""
        steps: dict[str, dict[int, float]] = {}
        for start in range(0, len(trials), _CURVES_AT_ONCE):
            some = tuple(one.run for one in trials[start : start + _CURVES_AT_ONCE])
            steps |= self._steps(kept, some, None)
        return [replace(one, steps=steps.get(one.run, {})) for one in trials]

    def new_steps(self, kept: Kept, run: str, after: int | None) -> dict[int, float]:
        return self._steps(kept, (run,), None if after is None else after + 1).get(run, {})

    def _steps(self, kept: Kept, ids: tuple[str, ...], first: int | None) -> dict[str, dict[int, float]]:
        metric = kept.study.objectives[0].metric
        request = runs.ReadCurves(project=self.project, runs=ids, keys=(metric,), first_step=first)
        found = self.client.call(runs.READ_CURVES, request).items
        return {one.run: dict(zip(one.steps, one.values, strict=True)) for one in found}

    def claim(self, kept: Kept, number: int, params: spaces.Params, claim: str, now: int) -> Seen | None:
        """The run of a trial that is new. None where somebody has that number already: only one can."""
        run = written.run_id(self.project, kept.experiment, int(kept.created), number)
        tags = {written.TRIAL: str(number), written.STATE: "running", written.CLAIM: claim}
        request = runs.ImportRun(
            project=self.project,
            run=run,
            experiment=kept.experiment,
            name=f"trial {number}",
            status="RUNNING",
            started=now,
            params=tuple(Param(key=name, value=spaces.written(chosen)) for name, chosen in params.items()),
            tags=tuple(Tag(key=key, value=text) for key, text in tags.items()),
        )
        self.client.call(runs.IMPORT_RUN, request)
        seen = self.trial(kept, run)
        return seen if seen is not None and seen.claim == claim else None

    def note(self, run: str, tags: dict[str, str], metrics: tuple[Metric, ...] = ()) -> None:
        told = tuple(Tag(key=key, value=text[:LONGEST_TAG]) for key, text in tags.items())
        self.client.call(runs.LOG_TO_RUN, runs.LogToRun(project=self.project, run=run, tags=told, metrics=metrics))

    def settle(self, trial: Trial, metrics: tuple[Metric, ...] = ()) -> None:
        """What became of a trial, all at once."""
        self.note(trial.run, written.trial_tags(trial), metrics)


def read_kept(found: experiments.Experiment) -> Kept:
    tags = {tag.key: tag.value for tag in found.tags}
    study, more = written.read_study(found.name, tags)
    job, arguments, earlier = more.get("job"), more.get("arguments"), more.get("earlier")
    if type(arguments) is not bool or not isinstance(earlier, list) or not all(type(one) is int for one in earlier):
        raise Invalid(_CHANGED.format(found.name))
    try:
        spec = adapter(Spec).validate_json(json.dumps(job))
    except ValidationError:
        raise Invalid(_CHANGED.format(found.name)) from None
    return Kept(
        experiment=found.id,
        created=found.created,
        study=study,
        job=spec,
        arguments=arguments,
        earlier=tuple(earlier),
        limits=written.read_limits(tags),
        stopped=written.STOP in tags,
        ended=written.read_end(tags),
        importance=written.read_importance(tags),
    )


def read_run(project: str, kept: Kept, run: runs.Run) -> Seen | None:
    """None for a run that is no trial of the study: anybody may put runs into an experiment."""
    tags = {tag.key: tag.value for tag in run.tags}
    trial = written.read_trial(kept.study, run.info.id, tags, {param.key: param.value for param in run.params})
    if trial is None or trial.run != written.run_id(project, kept.experiment, int(kept.created), trial.number):
        return None
    return Seen(
        trial=trial,
        status=run.info.status,
        created=run.info.created,
        created_by=run.info.created_by,
        latest={metric.key: metric for metric in run.metrics},
        claim=tags.get(written.CLAIM, ""),
        hidden=run.info.deleted,
    )
