"""From what people ask for to what the scheduler decides on: nothing is lost on the way through a row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.words import Resources
from falaj.jobs.orders import order_of, read_order, shape_of, write_order
from falaj.jobs.scheduler.values import CARD, Job

NOW = Moment.parse("2026-11-15T09:00:00Z")
GPUS = st.sampled_from([0.0, 0.01, 0.1, 0.333, 0.5, 0.999, 1.0, 2.0, 8.0, 1024.0])
RESOURCES = st.builds(
    Resources,
    cpus=st.floats(0.0001, 100_000),
    memory_mib=st.integers(16, 2**40),
    gpus=GPUS,
    gpu_models=st.lists(st.sampled_from(["H200", "A100", "L4"]), max_size=3).map(tuple),
    sharing=st.sampled_from(["mps", "time"]),
    io=st.integers(0, 1_000_000),
)
SPECS = st.builds(
    Spec,
    command=st.just(("true",)),
    resources=RESOURCES,
    tasks=st.just(9),
    least=st.integers(0, 9),
    seconds=st.integers(0, 10**7),
    timeout=st.integers(0, 10**7),
    grace=st.integers(0, 3600),
    deadline=st.none() | st.integers(NOW + 1, NOW + 10**15).map(Moment),
    topology=st.sampled_from(["any", "host", "rack", "spread"]),
    label=st.sampled_from(["", "one"]),
    apart_from=st.sampled_from([(), ("one", "two")]),
)


def ordered(spec: Spec, price: int = 0) -> Job:
    return order_of(spec, id="j", project="p", user="u", queue="q", priority=3, zone="home", now=NOW, price=price)


@given(SPECS, st.integers(0, 10**9))
def test_what_was_ordered_is_read_from_its_row_as_it_was(spec: Spec, price: int):
    job = ordered(spec, price)
    read = read_order(
        write_order(job), id="j", project="p", user="u", queue="q", submitted=NOW, served=job.served, not_before=job.not_before
    )
    assert read == job


@given(RESOURCES)
def test_whole_cards_and_parts_of_one_add_up_to_what_was_asked_for(resources: Resources):
    shape = shape_of(resources)
    assert shape.gpus * shape.gpu_milli == (round(resources.gpus * CARD) if resources.gpus else 0)
    assert shape.gpus <= 1 or shape.gpu_milli == CARD
    assert shape.cpu_milli >= 1
    assert (shape.sharing == "whole") == (shape.gpu_milli == CARD)


def test_times_are_counted_in_microseconds():
    job = ordered(Spec(command=("x",), seconds=90, timeout=3600, grace=30))
    assert (job.duration, job.timeout, job.grace) == (90 * SECOND, 3600 * SECOND, 30 * SECOND)


def test_the_same_models_in_another_order_are_the_same_wish():
    assert shape_of(Resources(gpus=1, gpu_models=("L4", "A100", "L4"))) == shape_of(
        Resources(gpus=1, gpu_models=("A100", "L4"))
    )


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (Resources(gpus=2.5), "2.5 GPUs cannot be given"),
        (Resources(gpus=0.004), "0.004 of a GPU is less than can be given"),
        (Resources(cpus=0.0), "0.0 CPUs cannot be given"),
    ],
)
def test_what_cannot_be_cut_so_is_refused(resources: Resources, words: str):
    with pytest.raises(Invalid, match=words):
        shape_of(resources)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Spec(command=("x",), tasks=2, least=3), "cannot make do with at least 3"),
        (Spec(command=("x",), deadline=NOW), "has passed already"),
    ],
)
def test_what_contradicts_itself_is_refused(spec: Spec, words: str):
    with pytest.raises(Invalid, match=words):
        ordered(spec)
