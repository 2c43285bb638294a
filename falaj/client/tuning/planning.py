"""A study that is about to begin: held against what there is before anything is kept."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import Nothing, value
from falaj.client.tuning.jobs import fingerprint, is_job_of, spec_of, unknown_places
from falaj.client.tuning.records import Kept, Records, read_kept
from falaj.client.tuning.standings import standing
from falaj.governance.identity.operations import WHOAMI
from falaj.jobs.operations import jobs
from falaj.jobs.operations.jobs import Planned, Spec
from falaj.operations.messages import adapter
from falaj.tracking.operations.experiments import Experiment
from falaj.training.search import written
from falaj.training.search.searching import check_installed
from falaj.training.search.spaces import example
from falaj.training.search.stopping import Limits
from falaj.training.search.studies import Study, changed, differences

_LOOKED_AT: Final = 20  # trials
_SHOWN: Final = 2000  # letters of each thing that is to be agreed to
UNASKED: Final = 20  # trials that may be begun by limits which only the tags say


@value
class Wish:
    study: Study
    job: Spec
    limits: Limits
    arguments: bool = True  # whether parameters are given as `--name value`


def planned(records: Records, wish: Wish, found: Kept | None, earlier: Sequence[str] = ()) -> tuple[Kept, Planned]:
    """The study as it would be kept, and what is to be expected of its first job. Raises whatever stands in the way, one
    `found` of that name that is of something else as well."""
    study = wish.study
    check_installed(study.sampler)
    if wish.limits.target is not None and len(study.objectives) > 1:
        raise Invalid("A target is for one metric; with several, say how many trials or how long.")
    kept = Kept(
        experiment=0,
        created=Moment(0),
        study=study,
        job=wish.job,
        arguments=wish.arguments,
        earlier=tuple(_compatible(records, study, name).experiment for name in earlier),
        limits=wish.limits,
        importance={},
    )
    if found is not None:
        _check_same(kept, found)
    if unknown := next(unknown_places(kept), None):
        names = ", ".join(one.name for one in study.space)
        raise Invalid(f"The command has a place {{{unknown}}}, and no parameter is called that; there are {names}.")
    request = jobs.Submit(project=records.project, spec=spec_of(kept, 0, example(study.space), ""))
    return kept, records.client.call(jobs.PLAN_JOB, request)


def _check_same(wished: Kept, found: Kept) -> None:
    told = differences(wished.study, found.study)
    was, now = found.job.command, wished.job.command
    if was != now:
        begins = was.index("--") + 1 if "--" in was else 0  # how a script is started is worth a word where that differs
        cut = begins if was[:begins] == now[:begins] else 0
        told.append(changed("the command", shlex.join(was[cut:]), shlex.join(now[cut:])))
    if told:
        name = found.study.name
        raise Conflict(
            f"There is a study {name!r} already, and this would be another one: {'; '.join(told)}. Take another name with "
            f"--name, or go on with the one there is: falaj tune resume {shlex.quote(name)}"
        )


def left_aside(wished: Kept, found: Kept) -> list[str]:
    """What is asked for otherwise than when it was begun and is no matter of what it searches: its trials go on as they are."""
    now, was = (adapter(Spec).dump_python(each.job, mode="json") for each in (wished, found))
    now, was = ({**each.pop("resources"), **each} for each in (now, was))
    names = [name.removesuffix("_mib").replace("_", " ") for name in now if name != "source" and now[name] != was[name]]
    return names + (["the studies to learn from"] if wished.earlier != found.earlier else [])


def resumed(records: Records, kept: Kept, limits: Limits) -> Kept:
    """With other limits, and begun again where it was stopped."""
    check_installed(kept.study.sampler)
    records.go_on(kept)
    return replace(records.limit(kept, limits), stopped=False, ended=None)


def is_agreed(records: Records, kept: Kept, agreed: str) -> bool:
    """Whether what the trials would run is what the caller agreed to, or has had run by this study before: the study's tags
    say it, and others who may write those may have fewer permissions than the caller. A job counts that the caller submitted
    for one of its trials, and that is to the letter what the trial would run."""
    if fingerprint(kept) == agreed:
        return True
    me = records.client.call(WHOAMI, Nothing()).id
    begun = [one.trial for one in records.trials(kept) if one.trial.job]
    for trial in begun[-_LOOKED_AT:]:
        with suppress(NotFound):
            job = records.client.call(jobs.SHOW_JOB, jobs.OneJob(project=records.project, job=trial.job))
            if job.submitted_by.id == me and is_job_of(kept, trial, job):
                return True
    return False


def more_trials(records: Records, kept: Kept, limits: Limits) -> int:
    """How many would still be begun."""
    begun = [one.trial for one in records.trials(kept, state="active")]
    return standing(replace(kept, limits=limits), begun).most - len(begun)


def told(kept: Kept) -> str:
    """What the trials run and are given, for who is to agree to it: all of it, and nothing that looks like something else."""
    spec = kept.job
    given = {"the files": (spec.source[:12],), "the secrets": spec.secrets, "the hosts": spec.hosts}
    given |= {"the permissions": spec.permissions, "the image": (spec.image,)}
    given |= {"the variables": tuple(f"{one.name}={shlex.quote(one.value)}" for one in spec.variables)}
    given |= {"the packages": tuple(spec.lock.split("\n")), "the outputs": spec.outputs}
    given |= {"the parameters": tuple(f"{one.name}={one.told()}" for one in kept.study.space)}
    given |= {"the queue": (spec.queue,), "the priority": (spec.priority if spec.priority != "normal" else "",)}
    words = [f"{name} {_plain(', '.join(filter(None, some)))}" for name, some in given.items() if any(some)]
    return f"`{_plain(shlex.join(spec.command))}` with {'; '.join(words)}"


def _plain(text: str) -> str:
    """On one line, with every letter that would not be seen spelled out; of what is long, both ends."""
    seen = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    if len(seen) <= _SHOWN:
        return seen
    return f"{seen[: _SHOWN // 2]} [... {len(seen) - _SHOWN:,} letters are left out here ...] {seen[-_SHOWN // 2 :]}"


def required(records: Records, name: str) -> Kept:
    return read_kept(required_experiment(records, name))


def required_experiment(records: Records, name: str) -> Experiment:
    """A study's, also where its tags say none that can be gone on with."""
    found = records.experiment(name)
    if found is None:
        raise NotFound(f"There is no study {name!r} here; `falaj tune list` shows those there are.")
    if not written.is_study({tag.key: tag.value for tag in found.tags}):
        raise Invalid(f"The experiment {name!r} is no study; those that `falaj tune run` makes are.")
    return found


def _compatible(records: Records, study: Study, name: str) -> Kept:
    """A study to learn from: the same parameters and metrics; ranges may differ."""
    other = required(records, name)
    mine, theirs = ({(one.name, one.kind) for one in each.space} for each in (study, other.study))
    if mine != theirs:
        odd = ", ".join(sorted(name for name, _ in mine ^ theirs))
        raise Invalid(f"Nothing can be learned from {name!r}: the two do not have the same parameters ({odd}).")
    if study.objectives != other.study.objectives:
        goals = ", ".join(f"{one.metric}:{one.direction}" for one in other.study.objectives)
        raise Invalid(f"Nothing can be learned from {name!r}: it goes by {goals}.")
    return other
