"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.values import Id, Items, Message, Number, Personal, Range, Text, value

MOST_METRICS: Final = 1000
MOST_PARAMS: Final = 1000
LONGEST_NAME: Final = 500
LONGEST_KEY: Final = 250
LONGEST_PARAM: Final = 6000
LONGEST_TAG: Final = 8000

Title = Annotated[str, Text(shortest=1, longest=LONGEST_NAME), Personal()]
Key = Annotated[str, Text(shortest=1, longest=LONGEST_KEY)]
Remark = Annotated[str, Text(longest=LONGEST_TAG), Personal()]
ParamValue = Annotated[str, Text(longest=LONGEST_PARAM), Personal()]
LongText = Annotated[str, Text(longest=65_535), Personal()]
Filter = Annotated[str, Text(longest=20_000)]
Order = Annotated[tuple[Annotated[str, Text(longest=1000)], ...], Items(most=20)]
# Experiments are numbered within their project; 0 is the one every project has from the start.
ExperimentNumber = Annotated[int, Range(least=0, most=2**53)]
Milliseconds = Annotated[int, Range(least=-(2**62), most=2**62)]
LoggedModelId = Annotated[str, Text(pattern=r"^m-[0-9a-f]{32}$", longest=34)]
LoggedModelOrNone = Annotated[str, Text(pattern=r"^(m-[0-9a-f]{32})?$", longest=34)]
RunOrNone = Annotated[str, Text(pattern=r"^([0-9a-f]{32})?$", longest=32)]
RunId = Id
# What artifacts belong to: a run, or a model that a run logged.
Holder = Annotated[str, Text(pattern=r"^(m-)?[0-9a-f]{32}$", longest=34)]
State = Literal["active", "deleted", "all"]
Status = Literal["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]


@value
class Tag(Message):
    key: Key
    value: Remark = ""


@value
class Param(Message):
    key: Key
    value: ParamValue = ""


@value
class Metric(Message):
    """One point of a curve. `timestamp` is in milliseconds since 1970, as clients say it."""

    key: Key
    value: Number
    timestamp: Milliseconds
    step: Milliseconds = 0


# One commitment for all of them: a salt for each would cost more than the tags themselves.
Tags = Annotated[tuple[Tag, ...], Items(most=MOST_PARAMS), Personal()]
Params = Annotated[tuple[Param, ...], Items(most=MOST_PARAMS), Personal()]
Metrics = Annotated[tuple[Metric, ...], Items(most=MOST_METRICS)]
