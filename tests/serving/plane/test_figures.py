"""What workers did, put together."""

from prometheus_client.parser import text_string_to_metric_families

from falaj.serving.latencies import BUCKETS
from falaj.serving.operations.planes import RevisionReport
from falaj.serving.plane.figures import Figures
from falaj.serving.states import Arm, Endpoint

ENDPOINT = "2" * 32


def did(**told) -> RevisionReport:
    return RevisionReport(**({"endpoint": ENDPOINT, "revision": 1, "ready": True} | told))


def counts(*places: int) -> tuple[int, ...]:
    return tuple(places.count(bucket) for bucket in range(BUCKETS))


ENDPOINT_SEEN = Endpoint(
    id=ENDPOINT, project="3" * 32, project_name="p", name="e", arms=(Arm(revision=1, share=10_000),), revisions=()
)


def test_two_workers_count_as_one_host():
    figures = Figures()
    figures.gather([did(requests=2, latencies=counts(0, 1))], [])
    figures.gather([did(requests=3, errors=1, latencies=counts(1, 1, 4)), did(revision=2, requests=7)], [])
    gathered, _ = figures.take()
    assert [(one.revision, one.requests, one.errors) for one in gathered] == [(1, 5, 1), (2, 7, 0)]
    assert gathered[0].latencies == counts(0, 1, 1, 1, 4)
    assert figures.take() == ([], ())


def test_prometheus_reads_what_is_shown_and_totals_only_grow():
    figures = Figures()
    figures.gather([did(requests=2, rows=4, latencies=counts(0, 1))], [])
    figures.take()
    figures.gather([did(requests=1, rows=1, latencies=counts(82))], [])
    families = {
        family.name: family for family in text_string_to_metric_families(figures.text([ENDPOINT_SEEN], workers=2, serial=9))
    }
    labels = {"project": "p", "endpoint": "e", "revision": "1"}
    assert [(one.labels, one.value) for one in families["falaj_serving_requests"].samples] == [(labels, 3)]
    buckets = [one.value for one in families["falaj_serving_seconds"].samples if one.name.endswith("_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 3
    assert families["falaj_plane_workers"].samples[0].value == 2


def test_what_the_reader_may_not_see_is_not_shown():
    figures = Figures()
    figures.gather([did(requests=2)], [])
    text = figures.text([], workers=1, serial=1)
    assert "falaj_plane_workers 1" in text
    assert 'endpoint="e"' not in text
