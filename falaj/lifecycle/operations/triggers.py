"""What starts pipelines by itself: a time, something new in the project, or a call from outside."""

from dataclasses import field
from typing import Annotated, Any, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Message, Name, Nothing, Range, Secret, Text, value
from falaj.collaboration.operations.words import Person
from falaj.lifecycle.operations.words import READ, WRITE, Sentence, Word

TriggerKind: TypeAlias = Literal["schedule", "dataset", "model", "alias", "drift", "webhook", "push"]
LONGEST_BODY: Final = 1_048_576


@value
class Trigger(Message):
    """- `schedule`: `cron` has five fields (`0 6 * * 1-5`), in the time of `zone` (`Asia/Dubai`). What was missed while nothing
      ran is made up for once.
    - `dataset`: a new current version of the dataset `about`; `model`: a new version of that model; `alias`: `scorer@champion`
      points elsewhere; `drift`: an alert that the endpoint `about` drifts, or that its quality falls, is raised or comes back.
    - `webhook`: a signed call of an address of its own, with JSON that is `trigger.content`; `push`: one that tells of a push
      to the git branch `about`, as GitHub, GitLab, Gitea and Forgejo make it: `trigger.branch`, `trigger.commit`.
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


def name_of(wish: Trigger) -> str:
    """What a trigger is called that the file of a pipeline wishes for, by which it is known again once it does so no more."""
    names = {"schedule": "schedule", "drift": "drifted", "dataset": f"new-{wish.about}"}
    return names.get(wish.kind, "")


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
    """`next` is when a schedule starts it; `last_run` the newest run it started. `words` say why it did not, where that was.
    `hook` is what a webhook is called by: `/hooks/HOOK`; `secret`, what calls are signed with, is shown when it is set."""

    name: Name
    wish: Trigger
    set: Moment
    set_by: Person
    next: Moment | None
    last_run: str
    waiting: bool
    words: Sentence
    hook: str = ""
    secret: Annotated[str, Secret()] = ""


@value
class CallHook(Message):
    """What a service sent, to the letter. `signature` is over the body; where there is a `delivery`, over its id, the time it
    was `sent` at, in seconds since 1970, and the body. `token` is the secret itself, for services that sign nothing."""

    hook: Id
    body: Annotated[str, Text(longest=LONGEST_BODY), Secret()] = ""
    signature: Annotated[str, Text(longest=2000), Secret()] = ""
    token: Annotated[str, Text(longest=200), Secret()] = ""
    delivery: Annotated[str, Text(longest=200)] = ""
    sent: Annotated[str, Text(longest=40)] = ""


@value
class Called(Message):
    """Whether it starts the pipeline, by itself or together with others that came meanwhile; `words` say so."""

    starts: bool
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
CALL_HOOK: Final = Operation(
    name="pipeline.call-hook",
    summary="Start a pipeline by the call of a service, which signs it with the hook's secret. Services call /hooks/{hook}.",
    method="POST",
    path="hooks/{hook}",
    request=CallHook,
    result=Called,
    permission=Permission(name="pipeline.call-hook", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
OPERATIONS: Final = (SET_TRIGGER, LIST_TRIGGERS, DELETE_TRIGGER, CALL_HOOK)
