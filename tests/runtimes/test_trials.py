"""Which rows a model and its conversion are asked, and how their answers are held against each other."""

import numpy as np
import pytest

from falaj.runtimes.sandboxed.comparing import TOLERANCE, Converted, gaps
from falaj.runtimes.sandboxed.originals import OfTensors, Original
from falaj.runtimes.sandboxed.samples import ROWS
from falaj.runtimes.sandboxed.trials import Trial


class Sums(Original):
    """Of the numbers of a table; it takes no gaps unless it is told to."""

    def __init__(self, *, gaps=True):
        super().__init__(model=object(), file="sums", library="tests")
        self._gaps = gaps

    def answers(self, asked):
        numbers = np.asarray(asked[["age", "income"]] if hasattr(asked, "columns") else asked, dtype=float)
        if np.isnan(numbers).any() and not self._gaps:
            raise ValueError("Input contains NaN.\nHalf of the model follows")
        return {"sum": np.nansum(numbers, axis=1)}


class Adds(OfTensors):
    def __init__(self, *told):
        super().__init__(model=object(), file="adds", library="tests")
        self.told = list(told)

    def answers(self, asked):
        return {"sum": sum(one.reshape(len(one), -1).sum(axis=1) for one in asked)}


SAID = {
    "columns": [{"name": "age", "type": "long"}, {"name": "income", "type": "double"}, {"name": "colour", "type": "string"}],
    "tensors": [],
}
PEOPLE = [{"age": 20 + row, "income": row / 2, "colour": "red", "bought": True} for row in range(30)]
IMAGE = {"name": "image", "dtype": "float32", "shape": [-1, 2, 2]}


def gap(*rows, **empty):
    return [row | empty if place in rows else row for place, row in enumerate(PEOPLE)]


def test_rows_of_a_dataset_are_taken_in_the_columns_and_types_of_the_signature():
    trial = Trial(SAID, PEOPLE)
    sample, answers = trial.table(Sums(), 3, [])
    assert (trial.rows, trial.real, trial.unfit) == (30, True, "")
    assert list(sample.columns) == ["age", "income", "colour"]
    assert (sample["age"].dtype, sample["income"].dtype) == (np.int64, np.float64)
    assert answers["sum"].tolist() == [20 + 1.5 * row for row in range(30)]


def test_without_a_signature_they_are_taken_by_the_names_that_the_model_has_itself():
    trial = Trial({"columns": [], "tensors": []}, PEOPLE)
    sample, _ = trial.table(Sums(), 2, ["income", "age"])
    assert trial.real
    assert sample[4].tolist() == [2.0, 24.0]


def test_rows_with_gaps_are_asked_where_the_model_takes_them_and_left_out_where_not():
    taken, refused = (Trial(SAID, gap(1, 2, income=None)) for _ in range(2))
    taken.table(Sums(), 3, [])
    refused.table(Sums(gaps=False), 3, [])
    assert (taken.rows, refused.rows) == (30, 28)
    assert taken.real
    assert refused.real
    texts = Trial(SAID, gap(7, colour=None))  # no tensor of texts has gaps, whatever the model says
    texts.table(Sums(), 3, [])
    assert texts.rows == 29


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"age": 1, "income": 2.0}], "they have no column 'colour'"),
        (gap(3, income="much"), "what they have in 'income' are no numbers"),
        (gap(*range(30), colour=None), "each of them leaves a column empty"),
        (gap(*range(30), income=None), "the model itself does not take them (ValueError: Input contains NaN)"),
    ],
)
def test_rows_that_do_not_fit_are_told_with_the_reason_and_others_made_up(rows, says):
    trial = Trial(SAID, rows)
    trial.table(Sums(gaps=False), 3, [])
    assert (trial.rows, trial.real) == (ROWS, False)
    assert says in trial.unfit


def test_without_a_dataset_rows_are_made_up_and_nothing_is_said():
    trial = Trial(SAID, [])
    trial.table(Sums(), 3, [])
    assert (trial.rows, trial.real, trial.unfit) == (ROWS, False, "")


def test_tensors_are_columns_of_their_name():
    trial = Trial({"columns": [], "tensors": [IMAGE]}, [{"image": [[row, 1], [2, 3]], "label": 3} for row in range(9)])
    (image,), answers = trial.tensors(Adds(IMAGE))
    assert (trial.rows, trial.real) == (9, True)
    assert (image.shape, image.dtype) == ((9, 2, 2), np.float32)
    assert answers["sum"].tolist() == [6.0 + row for row in range(9)]
    flat = Trial({"columns": [], "tensors": [IMAGE]}, [{"image": [0, 1, 2, 3, 4]}])
    flat.tensors(Adds(IMAGE))
    assert flat.unfit == "what they have in 'image' is not of the shape that the model takes"


def test_a_gap_is_told_by_row_and_the_widest_output_counts():
    labels = np.array(["a"] * 64)
    numbers = np.linspace(1, 1000, 64)
    apart = numbers.copy()
    apart[[3, 5]] *= 1.01
    made = Converted("onnx", "model.onnx", b"", gaps([(labels, labels), (numbers, apart)]))
    assert made.beyond == 2
    assert made.apart == pytest.approx(0.01)
    assert np.flatnonzero(made.gaps > TOLERANCE).tolist() == [3, 5]


def test_one_label_of_many_may_fall_otherwise_and_a_second_may_not():
    labels = np.array(["a"] * 64)
    other = np.where(np.arange(64) < 1, "b", labels)
    assert gaps([(labels, other)]).max() == 0
    assert gaps([(labels[:63], other[:63])]).max() == 1
    assert (gaps([(labels, np.where(np.arange(64) < 2, "b", labels))]) > 0).sum() == 2


def test_answers_of_another_shape_are_infinitely_far_apart():
    assert gaps([(np.zeros((4, 2)), np.zeros((4, 3)))]).max() == np.inf
    assert gaps([(np.array([np.nan, 1.0]), np.array([np.nan, np.nan]))]).tolist() == [0.0, np.inf]
