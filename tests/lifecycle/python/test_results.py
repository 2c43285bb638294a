"""What a function returned is what its step hands on, or clearly not; and which of its failures may be over later."""

import errno
import socket
import urllib.error
from collections.abc import Iterator
from email.message import Message
from typing import Any

import httpx
import numpy as np
import pytest

import falaj
from falaj.base.errors import Conflict, Unavailable
from falaj.client.http import Client
from falaj.client.pipelines.faults import is_temporary
from falaj.client.pipelines.kinds import DatasetVersion, Endpoint, ModelVersion, Run, kind_of, thing
from falaj.client.pipelines.results import Making, WrongResult, handed_on
from falaj.lifecycle.operations.words import Kind


@pytest.fixture
def making() -> Iterator[Making]:
    """Of a step whose platform is never asked."""
    with Client("http://127.0.0.1:9", None) as client:
        yield Making(client=client, project="late", function="train", code="0" * 64, name="train", inputs=())


@pytest.mark.parametrize(
    ("returned", "kind", "told"),
    [
        (DatasetVersion(dataset="flights", version=3), "dataset", {"dataset": "flights", "version": 3}),
        (ModelVersion(model="late", version=2), "model", {"model": "late", "version": 2}),
        (Run(run="ab" * 16), "run", {"run": "ab" * 16}),
        (Endpoint(endpoint="late"), "endpoint", {"endpoint": "late", "revision": 0}),
        (np.float64(0.5), "number", 0.5),
        (np.int64(5), "number", 5),
        (np.bool_(True), "flag", True),
        ((1, 2), "list", [1, 2]),
        (None, "nothing", None),
        ({"best": ModelVersion(model="late", version=2)}, "any", {"best": {"model": "late", "version": 2}}),
    ],
)
def test_what_is_of_its_kind_is_handed_on(making: Making, returned: Any, kind: Kind, told: Any):
    assert handed_on(returned, kind, making) == told


@pytest.mark.parametrize(
    ("returned", "kind", "words"),
    [
        (5, "model", "train is said to hand on a version of a model, and returned int '5'."),
        ("late:2", "model", "and returned str 'late:2'"),
        (DatasetVersion(dataset="a", version=1), "model", "and returned DatasetVersion"),
        (True, "number", "is said to hand on a number"),
        (0.5, "whole", "is said to hand on a whole number"),
        (float("nan"), "number", "It returned nan, for which JSON has no word"),
        ({1, 2}, "any", "It returned set, which cannot be handed on"),
        ({1: 2}, "any", "It returned dict, which cannot be handed on"),
        (np.zeros(3), "list", "It returned numpy.ndarray, which cannot be handed on"),
        (None, "dataset", "is said to hand on a version of a dataset, and returned nothing"),
        (3.5, "dataset", "return rows (Arrow, pandas, polars, a list of dicts) or a DatasetVersion"),
        ("x" * 300_000, "text", "train returned 300,002 bytes; 262,144 are the most"),
    ],
)
def test_what_is_not_is_told_with_both(making: Making, returned: Any, kind: Kind, words: str):
    with pytest.raises(WrongResult) as raised:
        handed_on(returned, kind, making)
    assert words in str(raised.value)


def test_a_function_is_given_things_and_not_what_they_are_written_like():
    assert thing({"dataset": "flights", "version": 3, "rows": 7}, "dataset") == DatasetVersion(dataset="flights", version=3)
    assert thing({"model": "late", "version": 2}, "model") == ModelVersion(model="late", version=2)
    assert thing({"a": 1}, "any") == {"a": 1}
    assert thing(None, "dataset") is None


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (int, "whole"),
        (float, "number"),
        (int | float, "number"),
        (str, "text"),
        (bool, "flag"),
        (list[int], "list"),
        (tuple, "list"),
        (dict[str, int], "any"),
        (None, "nothing"),
        (falaj.ModelVersion, "model"),
        (falaj.ModelVersion | None, "any"),
        (Any, "any"),
    ],
)
def test_annotations_say_which_kind_is_meant(annotation: Any, kind: str):
    assert kind_of(annotation) == kind


def _caused(by: BaseException) -> BaseException:
    error = RuntimeError("It went wrong.")
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    "error",
    [
        falaj.TemporaryError("later"),
        Unavailable("away"),
        ConnectionResetError(),
        TimeoutError(),
        socket.gaierror(),
        OSError(errno.ENETUNREACH, "no way"),
        urllib.error.URLError(ConnectionRefusedError()),
        urllib.error.HTTPError("http://a", 503, "busy", Message(), None),
        httpx.ConnectError("no"),
        _caused(TimeoutError()),
    ],
)
def test_what_may_be_over_later_is_temporary(error: BaseException):
    assert is_temporary(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        Conflict("no"),
        FileNotFoundError(errno.ENOENT, "gone"),
        urllib.error.HTTPError("http://a", 404, "not here", Message(), None),
        urllib.error.URLError("unknown url type"),
        MemoryError(),
        _caused(ValueError()),
    ],
)
def test_every_other_mistake_stays_one(error: BaseException):
    assert not is_temporary(error)
