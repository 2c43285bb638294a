"""A network of scikit-learn's gives a label beside the shares: it learns with less, and names its classes as before."""

import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
import onnx
import pytest
from skl2onnx import to_onnx
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier

from falaj.client.optimising.workshop import Order, Workshop
from falaj.optimisation.making.answers import read
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import Made, Sample

CLASSES = {"texts": ("red", "blue", "green"), "numbers": (7, 4)}
SECONDS = 40.0  # at most: it ends with its epochs


@cache
def rows(kinds: int) -> tuple[np.ndarray, np.ndarray]:
    found, truth = make_classification(600, 10, n_informative=6, n_classes=kinds, class_sep=2.0, random_state=2)
    return found.astype(np.float32), truth


def labels(named: str) -> np.ndarray:
    return np.array(CLASSES[named])[rows(len(CLASSES[named]))[1]]


@cache
def network(named: str, hidden: int = 64) -> Made:
    given, _ = rows(len(CLASSES[named]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((hidden, hidden), max_iter=40, random_state=0).fit(given, labels(named))
    return made_of(to_onnx(model, given[:1], options={"zipmap": False}))


def made_of(model: onnx.ModelProto) -> Made:
    return Made(runtime="onnx", file="model.onnx", files={"model.onnx": model.SerializeToString()})


def order(named: str, made: Made, student: bytes = b"") -> Order:
    plain = Sample(inputs=(rows(len(CLASSES[named]))[0],))
    said = answers(made, plain)
    reading = read(said, ["label", "probabilities"], {}, labels(named))
    sample = Sample(inputs=plain.inputs, truth=reading.truth_of(labels(named)))
    return Order(
        model=made,
        reading=reading,
        calibration=sample,
        training=sample,
        selection=sample,
        original=said,
        allowed=0.02,
        seed=1,
        student=student,
    )


@pytest.fixture(scope="module", params=CLASSES)
def named(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def workshop(named: str) -> Iterator[Workshop]:
    with Workshop(order(named, network(named), network(named, 8).content)) as made:
        yield made


@pytest.mark.parametrize("steps", [("prune:0.5", "int8"), ("sparsify:0.5",), ("distil:mlp",), ("distil:given",)])
def test_it_learns_with_less_and_its_label_goes_on_naming_the_largest_share(
    named: str, workshop: Workshop, steps: tuple[str, ...]
) -> None:
    found = workshop.make(steps, SECONDS)
    assert found.made is not None, found.problem
    label, shares = answers(found.made, Sample(inputs=(rows(len(CLASSES[named]))[0],)))
    known = np.array(sorted(CLASSES[named]))[shares.argmax(axis=1)]
    assert [one.decode() if isinstance(one, bytes) else str(one) for one in label] == [str(one) for one in known]
    assert found.drop < 0.5  # far from guesses
    if steps != ("sparsify:0.5",):
        assert found.made.size < 0.8 * network(named).size


def test_a_label_that_is_made_of_something_else_is_no_name_and_the_reason_says_what_is_in_the_way() -> None:
    model = onnx.load_from_string(network("texts").content)
    for node in model.graph.node:
        if node.op_type == "ArgMax":
            node.input[0] = "add_result2"  # of the sums that the shares are made of
    with Workshop(order("texts", made_of(model))) as workshop:
        found = workshop.make(("prune:0.5",), SECONDS)
    assert found.made is None
    assert found.problem == "the constant 'classes' holds texts, which torch does not take"
