"""Reading what clients send: tolerant where MLflow's own server is, and clear where it refuses."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.api.mlflow.bodies import body, from_body, from_query
from falaj.api.mlflow.points import LogBatch, LogMetric
from falaj.api.mlflow.runs import Create, Search
from falaj.base.errors import Invalid
from falaj.operations.messages import adapter
from falaj.tracking.operations.words import Metric


@body
class Sample:
    count: int = 0
    share: float = 0.0
    texts: tuple[str, ...] = ()


@given(st.integers(-(2**62), 2**62))
def test_whole_numbers_come_as_numbers_and_as_texts(number: int) -> None:
    assert from_body(Sample, json.dumps({"count": number}).encode()).count == number
    assert from_body(Sample, json.dumps({"count": str(number)}).encode()).count == number


@given(st.floats())
def test_doubles_come_in_every_way_that_json_writers_write_them(number: float) -> None:
    texts = [json.dumps(number)]
    if not math.isfinite(number):
        texts.append(f'"{texts[0]}"')
    for text in texts:
        read = from_body(Sample, f'{{"share": {text}}}'.encode()).share
        assert read == number or (math.isnan(read) and math.isnan(number))


def test_unknown_fields_are_ignored_at_every_depth() -> None:
    sent = {"run_id": "r", "later": {"a": 1}, "metrics": [{"key": "k", "value": 1, "timestamp": 2, "newer": [3]}]}
    assert from_body(LogBatch, json.dumps(sent).encode()).metrics[0].key == "k"


def test_null_means_left_out() -> None:
    sent = {"experiment_id": "3", "run_name": None, "start_time": None, "tags": [{"key": "a", "value": None}]}
    read = from_body(Create, json.dumps(sent).encode())
    assert (read.experiment_id, read.run_name, read.start_time, read.tags[0].value) == ("3", "", None, "")


def test_an_empty_body_has_all_fields_left_out() -> None:
    assert from_body(Sample, b"") == Sample()


def test_lists_in_a_query_are_repeated_keys() -> None:
    read = from_query(Sample, b"texts=a&texts=b%20c&count=7&share=NaN&unknown=1")
    assert (read.texts, read.count) == (("a", "b c"), 7)
    assert math.isnan(read.share)
    assert from_query(Search, b"experiment_ids=1&order_by=a+ASC").order_by == ("a ASC",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "JSON object"),
        (b'"text"', "JSON object"),
        (b"\xff", "not JSON"),
        (b'{"count": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not JSON"),
        (b'{"count": "many"}', "'count'"),
        (b'{"count": {"a": 1}}', "'count'"),
        (b'{"texts": "no list"}', "'texts'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_field_that_is_wrong(content: bytes, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        from_body(Sample, content)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Invalid, match=r"required parameter 'key'.*required parameter 'timestamp'"):
        from_body(LogMetric, b'{"run_id": "r", "value": 1}')


def test_a_thousand_metrics_pass_and_one_more_does_not() -> None:
    points = [{"key": "loss", "value": 0.5, "timestamp": 1, "step": step} for step in range(1001)]
    assert len(from_body(LogBatch, json.dumps({"metrics": points[:1000]}).encode()).metrics) == 1000
    with pytest.raises(Invalid, match="1000"):
        from_body(LogBatch, json.dumps({"metrics": points}).encode())


def test_a_key_that_is_too_long_is_refused_and_a_value_is_cut() -> None:
    sent = {"params": [{"key": "k", "value": "v" * 10_000}], "tags": [{"key": "t", "value": "w" * 10_000}]}
    read = from_body(LogBatch, json.dumps(sent).encode())
    assert (len(read.params[0].value), len(read.tags[0].value)) == (6000, 8000)
    with pytest.raises(Invalid, match=r"params\.0\.key"):
        from_body(LogBatch, json.dumps({"params": [{"key": "k" * 251, "value": ""}]}).encode())


def test_metrics_are_read_as_the_operation_wants_them() -> None:
    [point] = from_body(LogBatch, b'{"metrics": [{"key": "k", "value": NaN, "timestamp": "5"}]}').metrics
    assert isinstance(point, Metric)
    assert json.loads(adapter(Metric).dump_json(point)) == {
        "key": "k",
        "value": "NaN",
        "timestamp": 5,
        "step": 0,
    }
