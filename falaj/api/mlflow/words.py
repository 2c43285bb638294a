"""The words that endpoints share: ids as clients write them, and the small values that recur in requests."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from falaj.api.mlflow.bodies import body
from falaj.base.clock import Moment
from falaj.base.errors import Invalid, NotFound
from falaj.base.values import ID_PATTERN, Items, Personal, Text
from falaj.tracking.operations.words import LONGEST_PARAM, LONGEST_TAG, MOST_PARAMS, Key, Param, Params, State, Tag, Tags

_ID: Final = re.compile(ID_PATTERN)
_MODEL_ID: Final = re.compile(r"^m-[0-9a-f]{32}$")
_VIEWS: Final[dict[str, State]] = {
    "ACTIVE_ONLY": "active",
    "DELETED_ONLY": "deleted",
    "ALL": "all",
    "1": "active",
    "2": "deleted",
    "3": "all",
}

# MLflow's server cuts long values, and scripts rely on it: a text that is too long must not stop a training.
CutParam = Annotated[str, Text(longest=1 << 30), AfterValidator(lambda text: text[:LONGEST_PARAM]), Personal()]
CutTag = Annotated[str, Text(longest=1 << 30), AfterValidator(lambda text: text[:LONGEST_TAG]), Personal()]

DatasetName = Annotated[str, Text(longest=500), Personal()]
DatasetDigest = Annotated[str, Text(longest=36)]


@body
class TagBody:
    key: Key
    value: CutTag = ""


@body
class ParamBody:
    key: Key
    value: CutParam = ""


# Every list has a limit: requests are made of them as they are, and the operations count on theirs.
TagBodies = Annotated[tuple[TagBody, ...], Items(most=MOST_PARAMS)]
ParamBodies = Annotated[tuple[ParamBody, ...], Items(most=MOST_PARAMS)]
Ids = Annotated[tuple[str, ...], Items(most=1000)]


def tags_of(sent: tuple[TagBody, ...]) -> Tags:
    """The last of several with one key counts."""
    return tuple(Tag(key=key, value=text) for key, text in {tag.key: tag.value for tag in sent}.items())


def params_of(sent: tuple[ParamBody, ...]) -> Params:
    return tuple(Param(key=param.key, value=param.value) for param in sent)


def required(text: str, name: str) -> str:
    if not text:
        raise Invalid(f"Missing value for required parameter '{name}'.")
    return text


def is_run(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def run_of(text: str, name: str = "run_id") -> str:
    """A run's id. What cannot be one is the id of no run."""
    if not is_run(required(text, name)):
        raise NotFound(f"There is no run {text[:100]!r}.")
    return text


def run_or_none(text: str) -> str:
    return run_of(text) if text else ""


def logged_model_of(text: str) -> str:
    if not _MODEL_ID.fullmatch(required(text, "model_id")):
        raise NotFound(f"There is no logged model {text[:100]!r}.")
    return text


def experiment_of(text: str) -> int:
    if not (required(text, "experiment_id").isascii() and text.isdigit() and len(text) < 16):
        raise Invalid(f"An experiment's id is a whole number, not {text[:100]!r}.")
    return int(text)


def experiments_of(texts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(experiment_of(text) for text in texts))


def some_experiments(texts: tuple[str, ...]) -> tuple[int, ...]:
    """At least one; searching in none is an oversight."""
    return experiments_of(texts or (required("", "experiment_ids"),))


def version_of(text: str) -> int:
    if not (required(text, "version").isascii() and text.isdigit() and 0 < int(text[:11]) < 2**31):
        raise Invalid(f"A version is a whole number from 1 on, not {text[:100]!r}.")
    return int(text)


def state_of(view: str | int) -> State:
    """MLflow's view types, by name or number."""
    if (state := _VIEWS.get(str(view))) is None:
        raise Invalid(f"A view type is ACTIVE_ONLY, DELETED_ONLY or ALL, not {str(view)[:100]!r}.")
    return state


def milliseconds(moment: Moment) -> int:
    return moment // 1000
