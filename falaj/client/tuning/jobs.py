"""The job of a trial: the study's command with the trial's parameters put in."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from falaj.client.tuning.records import Kept
from falaj.jobs.operations.jobs import Job, Setting, Spec
from falaj.jobs.operations.words import STUDY, Resources
from falaj.operations.messages import adapter
from falaj.training.search import spaces, studies
from falaj.training.search.spaces import Params
from falaj.training.search.studies import Trial

LONGEST_NAME: Final = 100
# What leads a study needs, and what its trials have of it: no job can give another more than it has.
_OF_CONDUCTOR: Final = (
    *("experiment.read", "experiment.write", "run.read", "run.write", "artifact.read", "artifact.write"),
    *("logged-model.read", "logged-model.write", "model.read", "model.write", "version.read", "version.write"),
    *("job.read", "job.read-log", "job.report", "job.submit"),
)


def spec_of(kept: Kept, number: int, params: Params, run: str) -> Spec:
    """The same for whoever submits it. Words like `{lr}` are replaced; parameters without such a word follow as `--lr 0.1`
    unless the study says otherwise. All are in `FALAJ_PARAMS`, as JSON."""
    texts = {name: spaces.written(chosen) for name, chosen in params.items()}
    used = {name for name in texts if any(f"{{{name}}}" in word for word in kept.job.command)}
    command = [_filled(word, texts) for word in kept.job.command]
    if kept.arguments:
        command += [word for name in texts if name not in used for word in (f"--{name}", texts[name])]
    settings = (
        *kept.job.variables,
        Setting(name="FALAJ_PARAMS", value=json.dumps(params)),
        Setting(name="FALAJ_TRIAL", value=str(number)),
        Setting(name=STUDY, value=fingerprint(kept)),
    )
    return replace(
        kept.job, name=job_name(kept.study.name, number), command=tuple(command), variables=settings, run=run, experiment=""
    )


def is_job_of(kept: Kept, trial: Trial, job: Job) -> bool:
    """Whether the job says of itself that it is this trial's and runs what the study says: a run's tags may name any job."""
    wanted = spec_of(kept, trial.number, trial.params, trial.run)
    filled = replace(wanted, queue=wanted.queue or job.spec.queue, zone=wanted.zone or job.spec.zone)
    return job.run == trial.run and job.spec == filled


def fingerprint(kept: Kept) -> str:
    """Of everything that decides what the trials run. It is in every trial's job, where, unlike the study's tags, nobody can
    change it: so whoever leads the study later knows what they have had run before."""
    job = adapter(Spec).dump_python(kept.job, mode="json")
    text = json.dumps([job, kept.arguments, studies.as_document(kept.study)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def conductor_of(kept: Kept, project: str, register: str) -> Spec:
    """A job that leads the study in its trials' queue. Nobody stops it for others: what it began would end with it."""
    limits = ("--trials", str(kept.limits.trials), "--parallel", str(kept.limits.parallel))
    more = ("--agreed", fingerprint(kept), *limits, *(("--register", register) if register else ()))
    name = job_name(kept.study.name, "conductor")
    return Spec(
        name=name,
        command=("python", "-m", "falaj.cli.main", "tune", "resume", "--project", project, *more, "--", kept.study.name),
        resources=Resources(cpus=0.1, memory_mib=512),
        queue=kept.job.queue,
        zone=kept.job.zone,
        timeout=0,
        permissions=tuple(dict.fromkeys((*_OF_CONDUCTOR, *kept.job.permissions))),
        preemptible=False,
    )


def _filled(word: str, texts: dict[str, str]) -> str:
    for name, text in texts.items():
        word = word.replace(f"{{{name}}}", text)
    return word


def unknown_places(kept: Kept) -> Iterator[str]:
    """Words of the command that look like a parameter and are none."""
    names = {one.name for one in kept.study.space}
    for word in kept.job.command:
        yield from (name for name in re.findall(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}", word) if name not in names)


def job_name(study: str, number: int | str) -> str:
    kept = re.sub(r"[^A-Za-z0-9 ._-]", "-", study).lstrip(" ._-") or "trial"
    return f"{kept[: LONGEST_NAME - 12]} {number}"
