"""How answers are to be read, found out from the original and its labels."""

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.optimisation.making.answers import calibration_error, read


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
