"""Plain records: what a person sends with curl, and what they are told when it does not fit."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import FalajError, Invalid
from falaj.serving.plane.rest.records import read_records
from tests.serving.plane.rest.arithmetic import COLUMNS, MODELS, Arithmetic, Server, to_array
from tests.serving.plane.rest.wires import Wire, post

RECORD = {"age": 1, "height": 2.5, "weight": True}


def read(said: Any, model: str = "sum") -> list[Any]:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return [to_array(one).tolist() for one in read_records(body, MODELS[model], 1 << 20)]


@pytest.mark.parametrize(
    "said",
    [
        RECORD,
        {"records": [RECORD]},
        {"columns": ["weight", "age", "height"], "rows": [[1, 1, 2.5]]},
        {"columns": list(COLUMNS), "rows": [[1, 2.5, 1]]},
        {"rows": [[1, 2.5, 1]]},
    ],
)
def test_every_form_gives_the_columns_in_the_models_order(said: Any) -> None:
    assert read(said) == [[[1.0, 2.5, 1.0]]]


def test_a_model_with_one_input_for_each_column_gets_them_by_name() -> None:
    said = {"records": [{"size": 1, "age": 3, "city": "Muscat"}, {"age": 4, "city": "Nizwa", "size": None}]}
    age, city, size = read(said, "columns")
    assert (age, city) == ([[3], [4]], [[b"Muscat"], [b"Nizwa"]])
    assert size[0] == [1.0]
    assert math.isnan(size[1][0])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"age": 1, "height": 2}, "record 0 lacks 'weight'. Expected is .*'age', 'height', 'weight'"),
        ({**RECORD, "shoe": 1}, "has 'shoe', which the model does not know"),
        ({"records": [RECORD, {"agee": 1, "height": 2, "weight": 1}]}, "record 1 lacks 'age' and has 'agee'"),
        ({"records": []}, "no records"),
        ({"records": [1]}, "record 0 is not an object"),
        ({"columns": ["age"], "rows": [[1]]}, "lacks 'height', 'weight'"),
        ({"columns": ["age", "age"], "rows": [[1, 1]]}, "twice"),
        ({"columns": [1], "rows": [[1]]}, "not a list of names"),
        ({"columns": ["weight", "age", "height"], "rows": [[1, 2]]}, "row 0 does not have"),
        ({"rows": [[1, 2]]}, "row 0 does not have"),
        ({"rows": [1]}, "row 0 does not have"),
        ({**RECORD, "age": "old"}, "column 'age' is FP32 and cannot be \"old\""),
        ({**RECORD, "age": [1]}, "column 'age' is FP32 and cannot be \\[1\\]"),
        ([RECORD], "not an object"),
        (b"{", "not JSON"),
        (b'{"age":' + b"[" * 100_000, "too deeply"),
    ],
)
def test_what_does_not_fit_is_named(said: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(said)


@pytest.mark.parametrize(
    ("column", "element", "words"),
    [("age", None, "INT64 and cannot be null"), ("age", 1.5, "cannot be 1.5"), ("city", 5, "BYTES and cannot be 5")],
)
def test_a_wrong_value_is_named_with_its_column(column: str, element: Any, words: str) -> None:
    with pytest.raises(Invalid, match=f"column '{column}' is .*{words}"):
        read({"age": 1, "city": "x", "size": 1.0, column: element}, "columns")


FIELDS = st.sampled_from(["records", "rows", "columns", *COLUMNS])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
    max_leaves=15,
)


@given(JSONS)
def test_arbitrary_json_is_read_or_refused(said: Any) -> None:
    body = json.dumps(said).encode()
    for model in ("sum", "columns"):
        try:
            given = read_records(body, MODELS[model], 1 << 20)
        except FalajError:
            continue
        assert all(to_array(one).size for one in given)


def test_predictions_come_by_row_and_say_who_made_them(server: Server, core: Arithmetic) -> None:
    with Wire(server) as wire:
        wire.send(
            post(
                "/v2/endpoints/sum/predict",
                json.dumps({"records": [RECORD, RECORD]}).encode(),
                "x-falaj-key: k",
                "x-falaj-id: i",
            )
        )
        reply = wire.reply()
        assert reply.said == {"predictions": [4.5, 4.5], "model": "adder", "version": 7, "revision": 3}
        assert reply.fields["x-falaj-revision"] == "3"
        records = [{"age": 1, "city": "a", "size": 2}, {"age": 3, "city": "b", "size": None}]
        wire.send(post("/v2/endpoints/columns/predict", json.dumps({"records": records}).encode()))
        predictions = wire.reply().said["predictions"]
    assert predictions == [{"label": "a!", "scores": [1.0, 2.0]}, {"label": "b!", "scores": [3.0, "NaN"]}]
    assert (core.asks[0].key, core.asks[0].id) == ("k", "i")


def test_errors_are_answered_in_words(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(post("/v2/endpoints/sum/predict", b'{"age": 1}'))
        reply = wire.reply()
        assert reply.status == 400
        assert "lacks 'height', 'weight'" in reply.said["error"]
        wire.send(post("/v2/endpoints/none/predict", b"{}"))
        assert wire.reply().status == 404
        wire.send(post("/v2/endpoints/sum/predict", b"{}", token="bad"))
        reply = wire.reply()
        assert (reply.status, reply.fields["www-authenticate"]) == (401, "Bearer")


def test_a_body_without_json_is_the_models_one_input(server: Server) -> None:
    rows = to_array(read_records(b'{"rows":[[1,2,3],[4,5,6]]}', MODELS["sum"], 100)[0]).tobytes()
    with Wire(server) as wire:
        wire.send(post("/v2/models/sum/infer", rows, "inference-header-content-length: 0"))
        reply = wire.reply()
        length = int(reply.fields["inference-header-content-length"])
        assert json.loads(reply.body[:length])["outputs"][0]["shape"] == [2, 1]
        wire.send(post("/v2/models/sum/infer", rows[:-1], "inference-header-content-length: 0"))
        assert wire.reply().status == 400
