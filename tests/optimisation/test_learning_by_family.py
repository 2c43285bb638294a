"""Convolution nets and transformers learn with less, and become torch programs: through the workshop, as in a search."""

from collections.abc import Iterator

import numpy as np
import pytest

from falaj.client.optimising.workshop import Order, Outcome, Workshop
from falaj.optimisation.making.answers import read
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import Sample
from tests.optimisation.making.models import digits, sentences
from tests.optimisation.making.torch_nets import nets

SECONDS = 60.0  # at most: of few rows it ends with its epochs
FEW = {"pictures": 160, "reader": 80}
ROWS = {"pictures": digits, "reader": sentences}


def order(name: str) -> Order:
    learnt, compared, truth = ROWS[name]()
    said = answers(nets()[name], compared)
    return Order(
        model=nets()[name],
        reading=read(said, ["scores"], {}, truth),
        calibration=learnt.part(0, 64),
        training=learnt.part(0, FEW[name]),
        selection=compared,
        original=said,
        allowed=0.02,
        seed=1,
    )


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """For networks this small, several wait for each other more than they compute."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def pictures() -> Iterator[Workshop]:
    with Workshop(order("pictures")) as made:
        yield made


@pytest.fixture(scope="module")
def reader() -> Iterator[Workshop]:
    with Workshop(order("reader")) as made:
        yield made


def check_small(name: str, found: Outcome, family: str) -> None:
    """It is smaller, of the family it should be, and answers rows it has not seen well enough for having learnt from few."""
    assert found.made is not None, found.problem
    assert found.made.size < 0.8 * nets()[name].size
    assert profile_of(found.made).family == family
    _, compared, truth = ROWS[name]()
    (said,) = answers(found.made, Sample(inputs=compared.inputs))
    right, original = ((one.argmax(axis=1) == truth).mean() for one in (said, answers(nets()[name], compared)[0]))
    assert found.drop == pytest.approx(original - right)
    assert right > (original + np.bincount(truth).max() / len(truth)) / 2


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("student", ["mobilenet", "efficientnet"])
def test_a_convolution_net_teaches_a_compact_one(pictures: Workshop, student: str) -> None:
    found = pictures.make((f"distil:{student}",), 2 * SECONDS)
    check_small("pictures", found, "conv")
    assert found.made is not None
    assert f"into a {student}" in found.made.notes[0]


def test_a_transformer_teaches_a_smaller_one(reader: Workshop) -> None:
    check_small("reader", reader.make(("distil:transformer",), SECONDS), "transformer")


def test_a_transformer_is_pruned(reader: Workshop) -> None:
    check_small("reader", reader.make(("prune:0.5",), SECONDS), "transformer")


@pytest.mark.parametrize("name", ["pictures", "reader"])
def test_a_network_becomes_a_torch_program_that_answers_as_it_did(request: pytest.FixtureRequest, name: str) -> None:
    """On a CPU, where it counts in float32; on GPUs the same program is compiled."""
    found = request.getfixturevalue(name).make(("torch-program:f32",), 60)
    assert found.made is not None, found.problem
    assert (found.made.runtime, found.made.notes) == ("torch", ("A torch program in f32.",))
    _, compared, _ = ROWS[name]()
    (said,), (wanted,) = answers(found.made, compared), answers(nets()[name], compared)
    np.testing.assert_allclose(said, wanted, atol=1e-4)
    assert found.drop == 0
