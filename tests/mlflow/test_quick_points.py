"""The quick way to read a batch says the same as the thorough one, or nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.api.mlflow.bodies import from_body
from falaj.api.mlflow.quick_points import plain_batch
from falaj.api.mlflow.table import find
from falaj.base.errors import FalajError, Invalid

RUN = "0123456789abcdef" * 2
ENDPOINT: Any = find("POST", "/api/2.0/mlflow/runs/log-batch", b"").endpoint


class Somewhere:
    project = "fraud"


numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.none(), st.booleans(), st.just("7"))
points = st.fixed_dictionaries(
    {"key": st.text(max_size=3), "value": numbers, "timestamp": numbers},
    optional={"step": numbers, "model_id": st.sampled_from(["", f"m-{RUN}"]), "unknown": numbers},
)
batches = st.fixed_dictionaries(
    {"run_id": st.sampled_from([RUN, "x", ""]), "metrics": st.lists(points, max_size=3)},
    optional={"params": st.just([]), "tags": st.just([{"key": "a", "value": "b"}])},
)


def told(metrics: Any) -> list[str]:
    return [f"{point.key!r} {point.value!r} {point.timestamp!r} {point.step!r}" for point in metrics]


@given(batches)
def test_what_it_reads_the_thorough_way_reads_alike(batch: dict[str, Any]) -> None:
    content = json.dumps(batch).encode()
    quick = plain_batch(content, Somewhere())  # type: ignore[arg-type]
    if quick is None:
        return
    thorough = ENDPOINT.read(from_body(ENDPOINT.body, content), Somewhere())
    assert (quick.project, quick.run, told(quick.metrics)) == (thorough.project, thorough.run, told(thorough.metrics))
    assert (thorough.params, thorough.tags, thorough.model) == ((), (), "")


def test_a_plain_batch_takes_the_quick_way() -> None:
    metrics = [{"key": "loss", "value": step / 2, "timestamp": step, "step": step} for step in range(1000)]
    quick = plain_batch(json.dumps({"run_id": RUN, "metrics": metrics, "params": [], "tags": []}).encode(), Somewhere())  # type: ignore[arg-type]
    assert quick is not None
    assert len(quick.metrics) == 1000


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"run_id": "x", "metrics": []}', b'{"metrics": []}', b'{"run_id": "\xff", "metrics": []}'],
)
def test_what_is_wrong_is_left_to_the_thorough_way(content: bytes) -> None:
    assert plain_batch(content, Somewhere()) is None  # type: ignore[arg-type]
    with pytest.raises((Invalid, FalajError)):
        ENDPOINT.read(from_body(ENDPOINT.body, content), Somewhere())
