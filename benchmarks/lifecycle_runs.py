"""Pipelines on a platform as it ships, a process of its own: how many steps a second, how soon after a kill -9 it goes on, how
long a second run takes that changes nothing, and how long the demo."""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from soak import FALAJ, Platform

from falaj.base.clock import SECOND
from falaj.client.http import Client
from falaj.jobs.operations.jobs import LIST_JOBS, ListJobs
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.lifecycle.operations.words import Definition, Step, Until
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment

PROJECT: Final = "default"
STARTERS: Final = 4  # clients that start runs
AWAY: Final = 3.0  # seconds that the platform is away after it was killed: what was waited for happens meanwhile
_PATIENCE: Final = 600.0
FLOW: Final = """
import falaj


@falaj.step(cached=True)
def rows(many: int) -> falaj.DatasetVersion:
    return [{"number": number, "square": number * number} for number in range(many)]


@falaj.step(cached=True)
def total(of: falaj.DatasetVersion) -> int:
    return sum(of.table().column("square").to_pylist())


@falaj.step(cached=True)
def half(of: int) -> float:
    return of / 2


@falaj.pipeline
def sums(many: int = 1000):
    return half(total(rows(many)))
"""


@contextmanager
def platform(folder: Path) -> Iterator[Platform]:
    folder.mkdir()
    running = Platform(folder)
    running.start()
    try:
        yield running
    finally:
        running.falaj("down")
        running.stop()


def client_of(running: Platform) -> Client:
    return Client(running.url, running.token, timeout=_PATIENCE)


# Steps a second


def nothing(name: str, given: Any) -> Step:
    return Step(name=name, kind="value", arguments={"value": given})


def nothings(steps: int) -> tuple[Step, ...]:
    """Each hands on what the one before it did."""
    return tuple(nothing(f"s{number}", {"$": f"steps.s{number - 1}"} if number else 0) for number in range(steps))


def calls(steps: int, operation: str, **arguments: Any) -> tuple[Step, ...]:
    """Each of them an operation of the platform, after the one before it."""
    return tuple(
        Step(
            name=f"s{number}",
            kind="operation",
            operation=operation,
            arguments=arguments,
            after=(f"s{number - 1}",) if number else (),
        )
        for number in range(steps)
    )


def steps_per_s(folder: Path, runs: int, steps: int, chain: int) -> dict[str, float]:
    """Of `runs` runs with `steps` steps each, started at once; of one run with `chain` steps; of steps that are operations."""
    with platform(folder) as running, client_of(running) as client:
        experiment = client.call(CREATE_EXPERIMENT, CreateExperiment(project=PROJECT, name="steps")).id
        apply(client, "nothing", nothings(steps))
        apply(client, "chain", nothings(chain))
        apply(client, "reads", calls(steps, "experiment.show", experiment=experiment))
        apply(client, "changes", calls(steps, "experiment.tag", experiment=experiment, key="of", value="bench"))
        rate(client, "nothing", 1, steps)
        fewer = max(1, runs // 5)
        return {
            "many": rate(client, "nothing", runs, steps),
            "chain": rate(client, "chain", 1, chain),
            "reads": rate(client, "reads", fewer, steps),
            "changes": rate(client, "changes", fewer, steps),
        }


def apply(client: Client, name: str, steps: tuple[Step, ...]) -> None:
    definition = Definition(steps=steps)
    client.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline=name, definition=definition))


def rate(client: Client, name: str, runs: int, steps: int) -> float:
    """From the first start that is asked for until the last run has ended, as it is on record."""
    began = time.time()
    with ThreadPoolExecutor(STARTERS) as pool:
        started = list(pool.map(lambda _: start(client, name), range(runs)))
    ended = [when(run.ended) for run in (wait_for(client, run) for run in started)]
    return runs * steps / (max(ended) - began)


def start(client: Client, name: str) -> str:
    return client.call(declared.START_RUN, declared.StartRun(project=PROJECT, pipeline=name)).id


def show(client: Client, run: str) -> PipelineRun:
    return client.call(declared.SHOW_RUN, declared.OneRun(project=PROJECT, run=run))


def wait_for(client: Client, run: str) -> PipelineRun:
    """Looked at seldom, so that looking is not what is measured."""
    deadline = time.monotonic() + _PATIENCE
    while (shown := show(client, run)).ended is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"the run {run} did not end")
        time.sleep(0.1)
    if shown.state != "done":
        raise SystemExit(f"the run {run} is {shown.state}: {shown.words}")
    return shown


def when(moment: int | None) -> float:
    return (moment or 0) / SECOND


# Going on after a kill


def resumed(folder: Path, rounds: int) -> dict[str, float]:
    """Seconds from the start of the process until a step is over that was under way when the platform was killed: one that
    waited for its time, and one whose job went on and ended meanwhile. The later one of each round counts."""
    found: dict[str, list[float]] = {"wait": [], "job": []}
    with platform(folder) as running:
        with client_of(running) as client:
            apply(client, "waits", (Step(name="first", kind="wait", arguments={"seconds": AWAY - 1}), after_first()))
            apply(client, "works", (job_for(AWAY - 1), after_first()))
        while len(found["wait"]) < rounds:
            once = once_resumed(running)
            if min(once.values()) < 0:
                continue  # it was over before the kill, and says nothing
            for name, seconds in once.items():
                found[name].append(seconds)
    later = [max(pair) for pair in zip(found["wait"], found["job"], strict=True)]
    return {
        "resume_s": statistics.median(later),
        "resume_slowest_s": max(later),
        "resume_wait_s": statistics.median(found["wait"]),
        "resume_job_s": statistics.median(found["job"]),
    }


def after_first() -> Step:
    return Step(name="second", kind="value", arguments={"value": True}, after=("first",))


def job_for(seconds: float) -> Step:
    spec = {"command": ["sleep", str(seconds)], "resources": {"cpus": 0.1, "memory_mib": 64}}
    ended = {"$": "==", "of": [{"$": "answer.state"}, "done"]}
    until = Until(operation="job.show", arguments={"job": {"$": "called.job.id"}}, done=ended, every=0.5)
    return Step(name="first", kind="operation", operation="job.submit", arguments={"spec": spec}, until=until)


def once_resumed(running: Platform) -> dict[str, float]:
    with client_of(running) as client:
        runs = {"job": start(client, "works")}
        wait_until(lambda: job_runs(client))
        runs["wait"] = start(client, "waits")
        wait_until(lambda: show(client, runs["wait"]).steps[0].state == "running")
    running.kill()
    time.sleep(AWAY)
    began = time.time()
    running.start()
    with client_of(running) as client:
        return {name: when(wait_for(client, run).steps[0].ended) - began for name, run in runs.items()}


def job_runs(client: Client) -> bool:
    return bool(client.call(LIST_JOBS, ListJobs(project=PROJECT, state="running", limit=1)).items)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit("it never came to that")
        time.sleep(0.05)


# A second run that changes nothing


def rerun(folder: Path) -> dict[str, float]:
    """A pipeline of three functions, run twice by the command line: `falaj pipeline run`, from its start to its end."""
    with platform(folder) as running:
        file = folder / "flow" / "flow.py"
        file.parent.mkdir()
        file.write_text(FLOW)
        return {"first_run_s": took(running, file), "cached_rerun_s": took(running, file)}


def took(running: Platform, file: Path) -> float:
    began = time.perf_counter()
    if running.falaj("pipeline", "run", str(file)):
        raise SystemExit("the pipeline failed")
    return time.perf_counter() - began


# The demo


def demo() -> dict[str, float]:
    """Its main part, from the command until everything is stopped again; and without making and ending a platform."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_")}
    began = time.perf_counter()
    command = [*FALAJ, "demo", "flights", "--exit", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=kept, text=True, check=False)
    if done.returncode:
        raise SystemExit("the demo failed")
    steps = json.loads(done.stdout)["shown"]
    return {"demo_main_s": time.perf_counter() - began, "demo_main_steps_s": sum(step["seconds"] for step in steps)}
