"""The face as a whole: what it does with a request before any operation sees it."""

import asyncio
import dataclasses
import json
from collections.abc import MutableMapping
from concurrent.futures import Future
from typing import Any, get_origin, get_type_hints

import pytest
from pydantic import ValidationError

from falaj.api.metrics import Metrics
from falaj.api.mlflow.face import MlflowFace
from falaj.api.mlflow.runs import _newest_that_fit
from falaj.api.mlflow.table import ROUTES
from falaj.base.clock import SystemClock
from falaj.base.values import Items, Nothing, marks
from falaj.operations.dispatcher import Call
from falaj.operations.messages import adapter
from falaj.tracking.operations.words import LONGEST_TAG
from falaj.wire.bodies import Limits
from falaj.wire.rates import Rate, RateLimits
from falaj.wire.uploads import UploadSlots

RUN = "0123456789abcdef" * 2
BODIES = sorted({endpoint.body for _, _, endpoint in ROUTES}, key=repr)
LISTS = [
    (kind, field.name)
    for kind in BODIES
    for field in dataclasses.fields(kind)
    if get_origin(get_type_hints(kind)[field.name]) is tuple
]


class Recording:
    """A dispatcher that does nothing, and remembers which way calls came."""

    def __init__(self) -> None:
        self.recalls = False
        self.calls: list[tuple[str, Call]] = []

    def shortcut(self, _operation: Any, _request: Any, call: Call) -> Future[Nothing] | None:
        if not self.recalls:
            return None
        self.calls.append(("shortcut", call))
        done: Future[Nothing] = Future()
        done.set_result(Nothing())
        return done

    def call(self, _operation: Any, _request: Any, call: Call) -> Nothing:
        self.calls.append(("long way", call))
        return Nothing()


def send(dispatcher: Recording, path: str, content: bytes, *, token: str = "") -> int:
    rate = Rate(per_second=1000, burst=1000)
    face = MlflowFace(
        dispatcher,  # type: ignore[arg-type]
        limits=Limits(),
        rates=RateLimits(callers=rate, strangers=rate, clock=SystemClock()),
        uploads=UploadSlots(),
        metrics=Metrics(),
        tls=False,
    )
    headers = [(b"content-type", b"application/json"), (b"host", b"falaj")]
    headers += [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": content}

    async def answer(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(face(scope | {"state": {"request_id": "r"}}, receive, answer))
    return int(sent[0]["status"])


@pytest.mark.parametrize("endpoint", ["log-metric", "log-batch", "set-tag"])
def test_what_goes_on_record_does_not_depend_on_the_way_a_call_took(endpoint: str) -> None:
    point = {"key": "auc", "value": 0.5, "timestamp": 1}
    sent = {"run_id": RUN, "metrics": [point]} if endpoint == "log-batch" else {"run_id": RUN, **point, "value": "1"}
    content, dispatcher = json.dumps(sent).encode(), Recording()
    for dispatcher.recalls in (False, True):
        assert send(dispatcher, f"/mlflow/fraud/api/2.0/mlflow/runs/{endpoint}", content, token="falaj_x") == 200
    assert [(way, call.content) for way, call in dispatcher.calls] == [("long way", content), ("shortcut", content)]


def test_a_batch_that_takes_several_calls_is_on_record_call_by_call() -> None:
    points = [{"key": "auc", "value": 1, "timestamp": 1, "model_id": f"m-{digit * 32}"} for digit in "ab"]
    dispatcher = Recording()
    content = json.dumps({"run_id": RUN, "metrics": points}).encode()
    assert send(dispatcher, "/mlflow/fraud/api/2.0/mlflow/runs/log-batch", content, token="falaj_x") == 200
    assert [(way, call.content) for way, call in dispatcher.calls] == [("long way", b"")] * 2


def test_nothing_that_a_stranger_sends_is_read_on_the_event_loop() -> None:
    dispatcher = Recording()
    dispatcher.recalls = True
    send(dispatcher, "/mlflow/fraud/api/2.0/mlflow/runs/delete", json.dumps({"run_id": RUN}).encode())
    assert [way for way, _ in dispatcher.calls] == ["long way"]


def test_there_are_lists_in_bodies() -> None:
    assert len(LISTS) > 10


@pytest.mark.parametrize(("kind", "field"), LISTS, ids=lambda part: getattr(part, "__qualname__", part))
def test_every_list_in_a_body_has_a_limit_and_is_read_up_to_the_first_wrong_item(kind: type, field: str) -> None:
    """Otherwise a megabyte of wrong ones stops the platform for seconds, and of right ones its only writer."""
    assert any(isinstance(mark, Items) for mark in marks(kind, field))
    with pytest.raises(ValidationError) as refused:
        adapter(kind).validate_json(f'{{"{field}": [{"[]," * 10_000} []]}}'.encode(), strict=False, extra="ignore")
    assert len([error for error in refused.value.errors() if error["loc"][0] == field]) == 1


def test_a_history_of_models_keeps_the_newest_that_fit() -> None:
    assert _newest_that_fit([1, {"a": 2}]) == '[1, {"a": 2}]'
    exactly = "x" * (LONGEST_TAG - len('["", 1]'))
    assert json.loads(_newest_that_fit([0, exactly, 1])) == [exactly, 1]
    assert json.loads(_newest_that_fit([0, exactly + "x", 1])) == [1]
    assert _newest_that_fit([0] * 3000 + ["x" * 1_000_000]) == "[]"
