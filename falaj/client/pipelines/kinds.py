"""What steps hand on besides plain JSON: a version of a dataset or of a model, a run, an endpoint. By name, so that it is the
same whenever it is looked at; what is in it is read where it is needed."""

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.datasets import Dataset, dataset
from falaj.client.pipelines import looking
from falaj.lifecycle.operations.words import Kind
from falaj.registry.operations.versions import Version
from falaj.serving.operations import endpoints
from falaj.tracking.operations import runs


@value
class DatasetVersion:
    """A version of a dataset. Where FALAJ_URL and FALAJ_TOKEN are set, as in a job, it can be read."""

    dataset: str
    version: int

    def open(self) -> Dataset:
        return dataset(f"{self.dataset}@{self.version}")

    def table(self, columns: Sequence[str] | None = None) -> Any:
        """All rows as a `pyarrow.Table`."""
        return self.open().arrow(columns)

    def pandas(self, columns: Sequence[str] | None = None) -> Any:
        return self.open().pandas(columns)

    def polars(self, columns: Sequence[str] | None = None) -> Any:
        return self.open().polars(columns)


@value
class ModelVersion:
    """A version of a registered model."""

    model: str
    version: int

    def details(self) -> Version:
        return looking.version_of(self.model, self.version)

    def predict(self, rows: Any) -> dict[str, Any]:
        """What it says of rows (a frame, an Arrow table, a list of dictionaries), by the names of its outputs."""
        return import_module("falaj.client.pipelines.predicting").predicted(self.model, self.version, rows)  # type: ignore[no-any-return]

    def read(self, name: str) -> bytes:
        """One of its files."""
        return looking.file_of(self.model, self.version, name)


@value
class Run:
    """A run of an experiment, with all that was logged to it."""

    run: str

    def details(self) -> runs.Run:
        return looking.run_of(self.run)

    def metrics(self) -> dict[str, float]:
        """The last value of each."""
        return {one.key: one.value for one in self.details().metrics}

    def params(self) -> dict[str, str]:
        return {one.key: one.value for one in self.details().params}


@value
class Endpoint:
    """A name that clients call, and the revision that it was given."""

    endpoint: str
    revision: int = 0

    def details(self) -> endpoints.Endpoint:
        return looking.endpoint_of(self.endpoint)


THINGS: Final[Mapping[Kind, type]] = {"dataset": DatasetVersion, "model": ModelVersion, "run": Run, "endpoint": Endpoint}
# What each has, and of which kind that is.
PARTS: Final[Mapping[Kind, Mapping[str, Kind]]] = {
    "dataset": {"dataset": "text", "version": "whole"},
    "model": {"model": "text", "version": "whole"},
    "run": {"run": "text"},
    "endpoint": {"endpoint": "text", "revision": "whole"},
}
_PLAIN: Final[Mapping[Any, Kind]] = {
    inspect.Parameter.empty: "any",
    Any: "any",
    object: "any",
    dict: "any",
    None: "nothing",
    type(None): "nothing",
    bool: "flag",
    int: "whole",
    float: "number",
    str: "text",
    list: "list",
    tuple: "list",
    **{kind: name for name, kind in THINGS.items()},
}
_LISTS: Final = (list, tuple, Sequence)
_MAPPINGS: Final = (dict, Mapping)
_WORDS: Final[Mapping[Kind, str]] = {
    "any": "anything",
    "text": "a text",
    "number": "a number",
    "whole": "a whole number",
    "flag": "True or False",
    "list": "a list",
    "dataset": "a version of a dataset",
    "model": "a version of a model",
    "run": "a run",
    "endpoint": "an endpoint",
    "nothing": "nothing",
}


def told(kind: Kind) -> str:
    return _WORDS[kind]


def kind_of(annotation: Any) -> Kind:
    """Raises `Invalid` where it is none of those that can be handed from step to step."""
    found = _plain_kind_of(annotation)
    if found is not None:
        return found
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(inside[0])
    if origin is typing.Literal:
        return _one_of({kind_of(type(one)) for one in inside})
    if origin in (typing.Union, types.UnionType):
        return _one_of({kind_of(one) for one in inside})
    if origin is not None and any(origin is one for one in _LISTS):
        return "list"
    if origin is not None and any(origin is one for one in _MAPPINGS):
        return "any"
    raise Invalid(
        f"{getattr(annotation, '__name__', annotation)} is nothing that steps can be given or hand on; there are "
        "DatasetVersion, ModelVersion, Run and Endpoint of falaj, str, int, float, bool, list and dict."
    )


def _plain_kind_of(annotation: Any) -> Kind | None:
    try:
        if annotation in (Sequence, Mapping):
            return "list" if annotation is Sequence else "any"
        return _PLAIN.get(annotation)
    except TypeError:  # some annotations cannot be looked up
        return None


def _one_of(kinds: set[Kind]) -> Kind:
    return kinds.pop() if len(kinds) == 1 else "number" if kinds == {"whole", "number"} else "any"


def goes_for(given: Kind, wanted: Kind) -> bool:
    """Whether what is said to be of one kind may be given where another is wanted."""
    return given == wanted or "any" in (given, wanted) or (given, wanted) == ("whole", "number")


def plain(given: Any) -> Any:
    """A thing as it is written down; everything else as it is."""
    for kind, thing in THINGS.items():
        if isinstance(given, thing):
            return {name: getattr(given, name) for name in PARTS[kind]}
    return given


def thing(given: Any, kind: str) -> Any:
    """The other way round: what a step is given, as its function sees it."""
    found = THINGS.get(kind)  # type: ignore[call-overload]
    if found is None or not isinstance(given, Mapping):
        return given
    return found(**{name: given[name] for name in PARTS[kind] if name in given})  # type: ignore[index]
