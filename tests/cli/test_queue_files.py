"""Files that say how a platform is shared: read as they are meant, and what is misspelled is named with its place."""

import re
from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.cli.queue_files import read_queue_file
from falaj.jobs import documents
from falaj.jobs.documents import PRIORITIES, Document
from falaj.jobs.operations.queues import CohortSpec, PriorityClass, QueueSpec, QuotaOf

DOCS = Path(__file__).parents[2] / "docs" / "jobs.md"


def test_a_file_is_read_with_its_units():
    read = read_queue_file(
        """
        [[cohort]]
        name = "company"
        quota = { gpu = 8 }

        [[queue]]
        name = "research"
        cohort = "company"
        quota = { cpu = 1.5, memory = "256GiB", gpu = 4, io = 100, "gpu:H200" = 2 }
        borrow = { gpu = 0.5 }
        lend = { cpu = 1, memory = 512 }
        idle_gpu = "30m"
        monthly_budget = 5000.5
        projects = ["fraud"]
        order = "shortest"
        open = false

        [[priority]]
        name = "normal"
        value = 0
        """,
        dry_run=True,
    )
    assert read.cohorts == (CohortSpec(name="company", quotas=(QuotaOf(resource="gpu", nominal=8000),)),)
    assert read.priorities == (PriorityClass(name="normal", value=0),)
    assert read.dry_run
    assert read.queues == (
        QueueSpec(
            name="research",
            cohort="company",
            quotas=(
                QuotaOf(resource="cpu", nominal=1500, lend=1000),
                QuotaOf(resource="memory", nominal=262_144, lend=512),
                QuotaOf(resource="gpu", nominal=4000, borrow=500),
                QuotaOf(resource="io", nominal=100),
                QuotaOf(resource="gpu:H200", nominal=2000),
            ),
            order="shortest",
            open=False,
            projects=("fraud",),
            monthly_budget=5_000_500_000,
            idle_gpu_seconds=1800,
        ),
    )


def test_the_example_of_the_guide_is_one():
    """The only indented block of the guide that begins with a cohort."""
    found = re.search(r"\n((?:    \[\[cohort\]\].*?)(?:\n    value = \d+\n)+)", DOCS.read_text(), re.DOTALL)
    assert found is not None
    read = read_queue_file("\n".join(line[4:] for line in found[1].splitlines()), dry_run=False)
    documents.check(Document(queues=read.queues, cohorts=read.cohorts, priorities=read.priorities or PRIORITIES))
    assert [queue.name for queue in read.queues] == ["research", "production"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[queue", "This is no TOML"),
        ('[[queues]]\nname = "a"', "the file has 'queues', which means nothing here; there are cohort, priority, queue."),
        ('[queue]\nname = "a"', "Write each queue as a table of its own: [[queue]]."),
        ('[[queue]]\nnane = "a"', "queue '?' has 'nane', which means nothing here"),
        ("[[queue]]\nweight = 1", "A queue has no name."),
        ("[[cohort]]\nweight = 1", "A cohort has no name."),
        ("[[priority]]\nvalue = 1", "A priority has no name."),
        ('[[priority]]\nname = "low"', "priority 'low' has no value"),
        (
            '[[queue]]\nname = "a"\nquota = 4',
            "The quota of queue 'a' is no table; write it like quota = { cpu = 16, gpu = 4 }.",
        ),
        ('[[queue]]\nname = "a"\nquota = { cpu = "4" }', "'4' does not do for cpu of queue 'a'"),
        ('[[queue]]\nname = "a"\nquota = { cpu = -4 }', "a number that is not negative was expected"),
        ('[[queue]]\nname = "a"\nquota = { cpu = nan }', "a number that is not negative was expected"),
        ('[[queue]]\nname = "a"\nquota = { cpu = inf }', "a number that is not negative was expected"),
        ('[[queue]]\nname = "a"\nquota = { gpu = true }', "True does not do for gpu of queue 'a'"),
        ('[[queue]]\nname = "a"\nquota = { memory = "lots" }', "'lots' is no amount of memory"),
        ('[[queue]]\nname = "a"\nidle_gpu = "soon"', "'soon' is no length of time"),
        ('[[queue]]\nname = "a"\nmonthly_budget = "much"', "'much' does not do for monthly_budget of queue 'a'"),
        (
            '[[queue]]\nname = "a"\nprojects = "fraud"',
            "The projects of queue 'a' are no list; write them like projects = [\"fraud\"].",
        ),
        ('queue = ["a"]', "Write each queue as a table of its own: [[queue]]."),
    ],
)
def test_what_is_misspelled_is_named_with_its_place(text: str, words: str):
    with pytest.raises(Invalid) as refused:
        read_queue_file(text, dry_run=False)
    assert words in str(refused.value)
