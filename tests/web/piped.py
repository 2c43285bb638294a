"""Pipelines and runs of them, in all the ways they may stand, for pages to show. None of them needs a job."""

import time
from typing import Any, Final

from falaj.lifecycle.operations import pipelines, triggers
from falaj.lifecycle.operations.words import Definition, Parameter, Step
from tests.web.conftest import Site

WAIT: Final = 30.0


def asking(words: str = "Shall it go on?") -> Definition:
    """Goes through a list, asks, and does something else where somebody wants it."""
    return Definition(
        parameters=(Parameter(name="depth", kind="whole", default=3), Parameter(name="note", kind="text", default="")),
        steps=(
            Step(name="size", kind="value", arguments={"value": {"$": "parameters.depth"}}, result="whole", words=words),
            Step(name="each", kind="value", arguments={"value": {"$": "item"}}, each=[1, 2, words]),
            Step(name="asks", kind="approval", question=words, after=("size", "each")),
            Step(
                name="more",
                kind="value",
                arguments={"value": {"dataset": "flights", "version": {"$": "steps.size"}}},
                when={"$": ">", "of": [{"$": "steps.size"}, 5]},
                after=("asks",),
            ),
            Step(name="none", kind="value", arguments={"value": 1}, when=False),
        ),
        result={"size": {"$": "steps.size"}, "words": words},
        words=words,
    )


def apply(site: Site, name: str, definition: Definition, project: str = "fraud", *, token: str | None = None) -> Any:
    request = pipelines.Apply(project=project, pipeline=name, definition=definition)
    return site.call(pipelines.APPLY_PIPELINE, request, token=token)


def start(site: Site, name: str, project: str = "fraud", *, token: str | None = None, **parameters: Any) -> str:
    request = pipelines.StartRun(project=project, pipeline=name, parameters=parameters, words="As every night.")
    return str(site.call(pipelines.START_RUN, request, token=token).id)


def run(site: Site, id: str, project: str = "fraud") -> Any:
    return site.call(pipelines.SHOW_RUN, pipelines.OneRun(project=project, run=id))


def until(site: Site, id: str, step: str, state: str, project: str = "fraud") -> None:
    deadline = time.monotonic() + WAIT
    while True:
        found = {one.name: one.state for one in run(site, id, project).steps if one.item < 0}
        if found[step] == state:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def schedule(site: Site, pipeline: str, name: str, project: str = "fraud") -> None:
    wish = triggers.Trigger(kind="schedule", cron="0 6 * * *", zone="Asia/Dubai")
    site.call(triggers.SET_TRIGGER, triggers.SetTrigger(project=project, pipeline=pipeline, trigger=name, wish=wish))
