"""All queues as one document: what does not hold together is refused by its name, and what is written is read as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.jobs import documents
from falaj.jobs.documents import PRIORITIES, SHIPPED, Document
from falaj.jobs.operations.queues import CohortSpec, PriorityClass, QueueSpec, QuotaOf
from falaj.jobs.scheduler.scheduler import Scheduler

CPU = QuotaOf(resource="cpu", nominal=4000)
BORROWED = QuotaOf(resource="cpu", nominal=4000, borrow=1000)
LENT = QuotaOf(resource="cpu", nominal=4000, lend=1000)
REFUSED: dict[str, tuple[Document, str]] = {
    "two queues of a name": (Document(queues=(QueueSpec(name="a"), QueueSpec(name="a"))), "There are two of the queue 'a'"),
    "two cohorts of a name": (
        Document(queues=(QueueSpec(name="a"),), cohorts=(CohortSpec(name="c"), CohortSpec(name="c"))),
        "There are two of the cohort 'c'",
    ),
    "two classes of a name": (
        Document(queues=(QueueSpec(name="a"),), priorities=(*PRIORITIES, PriorityClass(name="low", value=1))),
        "There are two of the priority class 'low'",
    ),
    "no class": (Document(queues=(QueueSpec(name="a"),), priorities=()), "leave them out to have low, normal, high and urgent"),
    "a cohort that is not there": (
        Document(queues=(QueueSpec(name="a", cohort="moon"),)),
        "Queue 'a' belongs to the cohort 'moon', which is not there",
    ),
    "a parent that is not there": (
        Document(queues=(QueueSpec(name="a"),), cohorts=(CohortSpec(name="c", parent="moon"),)),
        "Cohort 'c' belongs to the cohort 'moon', which is not there",
    ),
    "its own parent": (
        Document(queues=(QueueSpec(name="a"),), cohorts=(CohortSpec(name="c", parent="c"),)),
        "These cohorts are each other's parents: c > c",
    ),
    "a circle of parents": (
        Document(
            queues=(QueueSpec(name="a", cohort="x"),),
            cohorts=(
                CohortSpec(name="x", parent="y"),
                CohortSpec(name="y", parent="z"),
                CohortSpec(name="z", parent="y"),
            ),
        ),
        "each other's parents: x > y > z > y",
    ),
    "two quotas of a resource": (
        Document(queues=(QueueSpec(name="a", quotas=(CPU, CPU)),)),
        "Queue 'a' has two quotas of 'cpu'",
    ),
    "borrowing alone": (
        Document(queues=(QueueSpec(name="a", quotas=(BORROWED,)),)),
        "Queue 'a' belongs to no cohort, so it neither borrows nor lends 'cpu'",
    ),
    "lending alone": (
        Document(queues=(QueueSpec(name="a"),), cohorts=(CohortSpec(name="c", quotas=(LENT,)),)),
        "Cohort 'c' belongs to no cohort, so it neither borrows nor lends 'cpu'",
    ),
}


@pytest.mark.parametrize(("document", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_hold_together_is_refused_by_its_name(document: Document, words: str):
    with pytest.raises(Invalid) as refused:
        documents.check(document)
    assert words in str(refused.value)


def test_what_ships_holds_together_and_bounds_nobody():
    documents.check(SHIPPED)
    queues, cohorts = documents.scheduled(SHIPPED, {})
    assert [(queue.name, dict(queue.quotas)) for queue in queues] == [("default", {})]
    assert list(cohorts) == []


def test_an_unknown_priority_says_which_there_are():
    with pytest.raises(Invalid, match="There is no priority class 'vip'; there are low, normal, high, urgent"):
        SHIPPED.priority("vip")


NAMES = st.sampled_from(["a", "b", "c", "d"])
QUOTAS = st.lists(
    st.builds(
        QuotaOf,
        resource=st.sampled_from(["cpu", "memory", "gpu", "gpu:H200"]),
        nominal=st.integers(0, 2**53),
        borrow=st.none() | st.integers(0, 2**53),
        lend=st.none() | st.integers(0, 2**53),
    ),
    max_size=3,
).map(tuple)
DOCUMENTS = st.builds(
    Document,
    queues=st.lists(
        st.builds(QueueSpec, name=NAMES, cohort=st.just("") | NAMES, quotas=QUOTAS, weight=st.integers(1, 10**6)),
        min_size=1,
        max_size=4,
    ).map(tuple),
    cohorts=st.lists(st.builds(CohortSpec, name=NAMES, parent=st.just("") | NAMES, quotas=QUOTAS), max_size=4).map(tuple),
)


@given(DOCUMENTS)
def test_what_is_written_is_read_as_it_was_and_what_is_checked_the_scheduler_takes(document: Document):
    assert documents.read(documents.write(document)) == document
    try:
        documents.check(document)
    except Invalid:
        return
    queues, cohorts = documents.scheduled(document, {"a": 7})
    made = list(queues)
    assert set(Scheduler(queues=made, cohorts=cohorts).shares()) == {queue.name for queue in document.queues}
    assert {queue.name: queue.spent for queue in made if queue.name == "a"} in ({}, {"a": 7})


def test_what_outranks_is_above_the_class_that_jobs_have_by_default():
    assert [one.name for one in SHIPPED.priorities if SHIPPED.outranks(one.value)] == ["high", "urgent"]
    raised = Document(queues=(), priorities=(PriorityClass(name="normal", value=50), PriorityClass(name="first", value=51)))
    assert [one.name for one in raised.priorities if raised.outranks(one.value)] == ["first"]
    unnamed = Document(queues=(), priorities=(PriorityClass(name="usual", value=0), PriorityClass(name="first", value=1)))
    assert [one.name for one in unnamed.priorities if unnamed.outranks(one.value)] == ["first"]
