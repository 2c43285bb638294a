"""The program of a step's job: `python -m falaj.client.pipelines.running RUN STEP ITEM`, in the folder of the pipeline's files.

1. Ask what the function is and what it is called with. 2. Load its file and call it. 3. Hold what it returned against what it
is said to hand on, and tell that; or tell how it failed, and whether trying again may help.
"""

import hashlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from falaj.base.errors import FalajError, TemporaryError
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.client.pipelines.faults import is_temporary
from falaj.client.pipelines.functions import StepFunction
from falaj.client.pipelines.kinds import thing
from falaj.client.pipelines.loading import loaded
from falaj.client.pipelines.looking import log_inputs
from falaj.client.pipelines.results import Making, WrongResult, handed_on
from falaj.client.pipelines.sources import code_of
from falaj.lifecycle.operations.pipelines import READ_TASK, TELL_RESULT, ReadTask, Task, TellResult
from falaj.lifecycle.operations.words import AGAIN

FAILED: Final = 3
_LONGEST: Final = 2000


class StepFailed(Exception):
    """Why, in a sentence; `temporary` where the same may go well later."""

    def __init__(self, words: str, *, temporary: bool = False) -> None:
        super().__init__(words)
        self.temporary = temporary


def main(arguments: list[str]) -> int:
    run, step, item = arguments
    try:
        with client_of_environment() as client:
            asked = ReadTask(
                project=project_of_environment(""),
                run=run,
                step=step,
                item=int(item),
                job=os.environ.get("FALAJ_JOB", ""),
            )
            return _run(client, asked)
    except FalajError as error:
        print(f"falaj: {error}", file=sys.stderr, flush=True)
        return AGAIN if isinstance(error, TemporaryError) else FAILED


def _run(client: Client, asked: ReadTask) -> int:
    task = client.call(READ_TASK, asked)
    report = TellResult(project=asked.project, run=asked.run, step=asked.step, item=asked.item, job=asked.job)
    status = 0
    try:
        report = replace(report, result=_done(client, asked, task))
    except StepFailed as failure:
        family, status = ("temporary", AGAIN) if failure.temporary else ("permanent", FAILED)
        report = replace(report, family=family, words=str(failure)[:_LONGEST])
        print(f"falaj: {failure}", file=sys.stderr, flush=True)
    client.call(TELL_RESULT, report)
    return status


def _done(client: Client, asked: ReadTask, task: Task) -> Any:
    root = Path.cwd().resolve()
    file = root / task.file
    function, kinds = _function(root, file, task)
    arguments = {name: thing(given, kinds.get(name, "any")) for name, given in task.arguments.items()}
    inputs = _datasets_in(task.arguments, kinds)
    if run := os.environ.get("FALAJ_RUN", ""):
        log_inputs(client, asked.project, run, inputs)
    shown = ", ".join(f"{name}={_in_few_words(given)}" for name, given in arguments.items())
    print(f"{task.function}({shown})", flush=True)
    try:
        returned = function(**arguments)
    except SystemExit as error:
        raise StepFailed(f"{task.function} ended its process ({error.code}); a step returns what it hands on.") from None
    except Exception as error:  # noqa: BLE001 - whatever users write may raise whatever
        _show_own(error, root)
        raise StepFailed(_told(task.function, error), temporary=is_temporary(error)) from None
    making = Making(
        client=client,
        project=asked.project,
        function=task.function,
        code=_digest(code_of(root, file), task),
        name=asked.step if asked.item < 0 else f"{asked.step}-{asked.item}",
        inputs=inputs,
    )
    try:
        return handed_on(returned, task.result, making)  # type: ignore[arg-type]
    except WrongResult as error:
        raise StepFailed(str(error)) from None
    except FalajError as error:
        raise StepFailed(f"What {task.function} returned could not be kept: {error}", temporary=is_temporary(error)) from None


def _function(root: Path, file: Path, task: Task) -> tuple[Callable[..., Any], Mapping[str, str]]:
    """With the kinds of its arguments: as its annotations say, or else as those say who gave them."""
    try:
        found = getattr(loaded(root, file), task.function, None)
    except ModuleNotFoundError as error:
        _show_own(error, root)
        words = (
            f"{task.file} cannot be loaded: there is no module {error.name!r} in this environment; name it in the step's lock."
        )
        raise StepFailed(words) from None
    except Exception as error:  # noqa: BLE001 - whatever users write may raise whatever
        _show_own(error, root)
        raise StepFailed(
            f"{task.file} cannot be loaded: {type(error).__name__}: {error}", temporary=is_temporary(error)
        ) from None
    if isinstance(found, StepFunction):
        said = {name: kind for name, kind in found.kinds.items() if kind != "any"}
        return found.function, {**task.kinds, **said}
    if inspect.isfunction(found):
        return found, task.kinds
    raise StepFailed(f"{task.file} has no function {task.function!r} once it is loaded.")


def _datasets_in(arguments: Mapping[str, Any], kinds: Mapping[str, str]) -> tuple[str, ...]:
    given = [one for name, one in arguments.items() if kinds.get(name) == "dataset" and isinstance(one, Mapping)]
    return tuple(dict.fromkeys(f"{one['dataset']}@{one['version']}" for one in given))


def _digest(code: str, task: Task) -> str:
    """Of what made the rows: other arguments make others."""
    return hashlib.sha256(json.dumps([code, task.function, task.arguments], sort_keys=True).encode()).hexdigest()


def _in_few_words(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _told(function: str, error: Exception) -> str:
    return f"{function} raised {type(error).__name__}: {error}" if str(error) else f"{function} raised {type(error).__name__}."


def _show_own(error: Exception, root: Path) -> None:
    """Where it happened, from the pipeline's own files on."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((place for place, one in enumerate(frames) if Path(one.filename).is_relative_to(root)), len(frames))
    sys.stderr.writelines(traceback.format_list(frames[own:]))
    sys.stderr.writelines(traceback.format_exception_only(error))
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
