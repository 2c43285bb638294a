"""How answers are to be read, found out from the original and its labels."""

from typing import Any

import numpy as np
import pytest
import xgboost

from falaj.base.errors import Invalid
from falaj.client.optimising.comparing import Comparison
from falaj.optimisation.making.answers import Reading, calibration_error, read
from falaj.optimisation.making.meanings import meaning_of
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import Made, Sample


def test_scores_of_classes_are_numbered_where_labels_are():
    found = read([np.eye(3)[[0, 1, 2, 1]]], ["scores"], {}, np.array([0, 1, 2, 1]))
    assert (found.kind, found.classes) == ("scores", ("0", "1", "2"))
    assert found.said([np.eye(3)[[2, 0]]]).tolist() == [2, 0]


def test_a_label_beside_the_probabilities_says_which_column_is_whose():
    labels, shares = np.array([b"yes", b"no"], dtype=object), np.array([[0.1, 0.9], [0.8, 0.2]])
    found = read([labels, shares], ["label", "probabilities"], {}, np.array(["yes", "no"], dtype=object))
    assert (found.output, found.classes) == (1, ("no", "yes"))
    assert found.truth_of(np.array(["yes", "no"], dtype=object)).tolist() == [1, 0]


def test_classes_that_the_model_knows_itself_go_first():
    found = read([np.array([[0.1, 0.9]])], ["p"], {"p": (b"late", b"in time")}, None)
    assert found.classes == ("late", "in time")


@pytest.mark.parametrize(
    ("values", "kind", "said"), [([0.2, 0.7, 0.5], "share", [0, 1, 1]), ([-3.0, 4.0, 0.5], "logit", [0, 1, 1])]
)
def test_a_single_number_of_two_classes_is_a_probability_or_a_score(values, kind, said):
    found = read([np.array(values)[:, None]], ["predict"], {}, np.array([0, 1, 1]))
    assert found.kind == kind
    assert found.said([np.array(values)[:, None]]).tolist() == said


def test_measured_labels_make_it_a_number():
    found = read([np.array([[1.5], [2.5]])], ["y"], {}, np.array([1.4, 2.75]))
    assert found.task == "numbers"


def test_a_label_alone_is_compared_as_it_is():
    found = read([np.array([3, 5, 3])], ["label"], {}, np.array([3, 5, 5]))
    assert found.kind == "label"
    assert found.said([np.array([5, 3, 7])]).tolist() == [1, 0, -1]


def boosted(settings: dict[str, Any], truth: np.ndarray) -> Made:
    rows = np.random.default_rng(3).random((len(truth), 4), dtype=np.float32)
    raw = xgboost.train({"max_depth": 2, "nthread": 1, **settings}, xgboost.DMatrix(rows, truth), 5).save_raw("json")
    return Made(runtime="xgboost", file="model.json", files={"model.json": bytes(raw)})


def read_of(made: Made, labels: np.ndarray | None = None) -> Reading:
    rows = np.random.default_rng(4).random((200, 4), dtype=np.float32)
    return read(answers(made, Sample(inputs=(rows,))), ["predict"], {}, labels, meaning=meaning_of(made))


@pytest.mark.parametrize("labels", [None, np.arange(200) % 3])
def test_class_numbers_of_xgboost_are_labels_and_no_amounts_with_and_without_the_truth(labels):
    made = boosted({"objective": "multi:softmax", "num_class": 3}, np.arange(300) % 3)
    found = read_of(made, labels)
    assert (found.kind, found.classes, found.task) == ("label", ("0", "1", "2"), "classes")
    assert found.said([np.array([2.0, 0.0], np.float32)]).tolist() == [2, 0]
    # A class that is wrong is wrong, however near its number is.
    plain = Comparison(found, [np.zeros(10, np.float32)], None)
    assert plain.drop([np.array([1.0] * 5 + [0.0] * 5, np.float32)]) == 0.5


def test_class_numbers_against_labels_in_words_are_refused():
    found = read_of(boosted({"objective": "multi:softmax", "num_class": 3}, np.arange(300) % 3))
    with pytest.raises(Invalid, match=r"labels have 'cat'.*classes '0', '1', '2'"):
        found.truth_of(np.array(["cat", "dog"], dtype=object))


def test_several_numbers_of_xgboost_are_numbers_without_the_truth_too():
    truth = np.random.default_rng(5).random((300, 2))
    found = read_of(boosted({"objective": "reg:squarederror"}, truth))
    assert found.task == "numbers"
    plain = Comparison(found, [truth], None)
    assert plain.drop([truth[:, ::-1]]) > 0.5


def test_several_numbers_that_may_be_scores_or_answers_need_the_truth():
    numbers = np.random.default_rng(6).normal(size=(50, 3))
    with pytest.raises(Invalid, match=r"scores of 3 classes, or 3 answers\. Name the column"):
        read([numbers], ["variable"], {}, None)
    assert read([numbers], ["variable"], {}, numbers + 0.1).task == "numbers"
    assert read([numbers], ["logits"], {}, np.arange(50) % 3).kind == "scores"
    shares = np.exp(numbers) / np.exp(numbers).sum(axis=1, keepdims=True)
    assert read([shares], ["probabilities"], {}, None).kind == "scores"
    assert read([numbers.argmax(axis=1), numbers], ["label", "scores"], {}, None).kind == "scores"
    assert read([numbers], ["scores"], {"scores": ("a", "b", "c")}, None).kind == "scores"


def test_several_numbers_are_held_against_as_many():
    truth = np.random.default_rng(5).random((300, 2))
    with pytest.raises(Invalid, match="gives 2 numbers for each row, and the column with the truth has 1"):
        read_of(boosted({"objective": "reg:squarederror"}, truth), np.arange(200.0))


def test_a_number_against_words_is_refused():
    found = read([np.array([[1.5], [2.5], [9.0]])], ["y"], {}, None)
    with pytest.raises(Invalid, match="answers with a number, and the column with the truth has 'cat'"):
        found.truth_of(np.array(["cat", "dog", "cow"], dtype=object))


def test_labels_that_no_class_has_are_told():
    found = read([np.eye(2)], ["scores"], {}, np.array([0, 1]))
    with pytest.raises(Invalid, match="labels have 'cat'"):
        found.truth_of(np.array(["cat", "0"], dtype=object))


def test_more_kinds_of_labels_than_classes_are_refused():
    with pytest.raises(Invalid, match="2 classes, and the labels have 3"):
        read([np.eye(2)[[0, 1, 0]]], ["scores"], {}, np.array(["a", "b", "c"], dtype=object))


def test_confidence_that_is_right_as_often_as_it_says_has_no_calibration_error():
    shares = np.column_stack([np.full(100, 0.25), np.full(100, 0.75)])
    assert calibration_error(shares, np.array([1] * 75 + [0] * 25)) == pytest.approx(0.0)
    assert calibration_error(shares, np.zeros(100, dtype=np.int64)) == pytest.approx(0.75)


def test_a_row_without_an_answer_says_nothing_of_what_the_others_are():
    """By it, probabilities were taken for scores, which made every difference of theirs several times smaller."""
    shares = np.random.default_rng(7).dirichlet([0.3, 0.3, 0.3], 500)
    truth = shares.argmax(axis=1)
    flat = 0.98 / 3 + 0.02 * shares
    plain = Comparison(read([shares], ["p"], {}, truth), [shares], truth).seen([flat], {})
    shares[3] = np.nan
    found = read([shares], ["p"], {}, None)
    assert found.kind == "scores"
    given = found.probabilities([shares], [shares])
    assert given is not None
    assert np.array_equal(given, shares, equal_nan=True)
    assert np.isfinite(given).all(axis=1).sum() == 499
    known = Comparison(found, [shares], truth)
    seen = known.seen([flat], {})
    assert seen.groups[0].scores[0].variant == pytest.approx(plain.groups[0].scores[0].variant)
    assert seen.calibration_error == pytest.approx(plain.calibration_error)
    assert known.original_calibration_error < 0.5


@pytest.mark.parametrize(
    ("values", "labels", "kind"),
    [([0.2, np.nan, 0.7, 0.9], [0, 1, 1, 1], "share"), ([0.0, np.nan, 2.0, 1.0], [0, 1, 2, 1], "label")],
)
def test_a_single_number_is_read_by_the_rows_that_have_one(values, labels, kind):
    found = read([np.array(values)[:, None]], ["predict"], {}, np.array(labels))
    assert found.kind == kind
    assert found.said([np.array(values)[:, None]])[1] == -1


def test_scores_without_end_have_no_probabilities():
    scores = np.array([[1.0, 2.0], [np.inf, 0.0]])
    given = Reading(kind="scores", output=0, classes=("0", "1")).probabilities([scores], [scores])
    assert given is not None
    assert np.isfinite(given).all(axis=1).tolist() == [True, False]
