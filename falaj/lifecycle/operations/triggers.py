"""What starts pipelines by itself: a time, or something new in the project."""

from dataclasses import field
from typing import Annotated, Any, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Message, Name, Nothing, Range, Text, value
from falaj.collaboration.operations.words import Person
from falaj.lifecycle.operations.words import READ, WRITE, Sentence, Word

TriggerKind: TypeAlias = Literal["schedule", "dataset", "model", "alias", "drift"]


@value
class Trigger(Message):
    """- `schedule`: `cron` has five fields (`0 6 * * 1-5`), in the time of `zone` (`Asia/Dubai`). What was missed while nothing
      ran is made up for once.
    - `dataset`: a new current version of the dataset `about`; `model`: a new version of that model; `alias`: `scorer@champion`
      points elsewhere; `drift`: a new alert of the endpoint `about`.
    - `parameters`: what the run is started with; `{"$": "trigger.version"}` and the like is what happened.
    - `pause`: seconds that have to pass between two runs. While a run that it started is not over it starts no other: what
      happens meanwhile is one start afterwards.
    """

    kind: TriggerKind
    about: Word = ""
    cron: Annotated[str, Text(longest=100)] = ""
    zone: Annotated[str, Text(longest=60)] = "UTC"
    parameters: dict[str, Any] = field(default_factory=dict)
    pause: Annotated[int, Range(least=0, most=31 * 86_400)] = 0


@value
class SetTrigger(Message):
    project: Name
    pipeline: Name
    trigger: Name
    wish: Trigger


@value
class OneTrigger(Message):
    project: Name
    pipeline: Name
    trigger: Name


@value
class ListTriggers(Message):
    project: Name
    pipeline: Name


@value
class TriggerShown(Message):
    """`next` is when a schedule starts it; `last_run` the newest run it started. `words` say why it did not, where that was."""

    name: Name
    wish: Trigger
    set: Moment
    set_by: Person
    next: Moment | None
    last_run: str
    waiting: bool
    words: Sentence


@value
class Triggers(Message):
    items: tuple[TriggerShown, ...]


SET_TRIGGER: Final = Operation(
    name="pipeline.set-trigger",
    summary="Start a pipeline by itself, in the name of whoever says so.",
    method="PUT",
    path="projects/{project}/pipelines/{pipeline}/triggers/{trigger}",
    request=SetTrigger,
    result=TriggerShown,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_TRIGGERS: Final = Operation(
    name="pipeline.list-triggers",
    summary="What starts a pipeline by itself.",
    method="GET",
    path="projects/{project}/pipelines/{pipeline}/triggers",
    request=ListTriggers,
    result=Triggers,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_TRIGGER: Final = Operation(
    name="pipeline.delete-trigger",
    summary="Let nothing start it by itself any more.",
    method="DELETE",
    path="projects/{project}/pipelines/{pipeline}/triggers/{trigger}",
    request=OneTrigger,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
OPERATIONS: Final = (SET_TRIGGER, LIST_TRIGGERS, DELETE_TRIGGER)
