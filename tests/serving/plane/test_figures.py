"""What workers did, put together."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from falaj.base.clock import Moment
from falaj.serving.latencies import BUCKETS, bucket_of
from falaj.serving.operations.loads import CardLoad, PlaneLoad
from falaj.serving.operations.planes import CallReport, PinnedReport, RevisionReport, RungReport
from falaj.serving.plane.figures import ENOUGH, MOST_CALLS, Figures
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


def test_calls_whose_caller_chose_the_revision_are_in_all_figures_of_the_host_and_apart_in_its_report():
    slow, figures = counts(*[bucket_of(0.3)] * ENOUGH), Figures()
    pinned = PinnedReport(requests=2, errors=1, shed=4, rows=3, latencies=slow)
    figures.gather([did(requests=5, rows=5, shed=1, latencies=counts(1)), did(revision=2, requests=1)], [])
    figures.gather([did(pinned=pinned)], [])
    figures.gather([did(requests=1, pinned=pinned)], [])
    shown = figures.text([ENDPOINT_SEEN], workers=1, serial=1)
    for name, total in {"requests": 10, "errors": 2, "rows": 11, "pinned": 4}.items():
        assert f'falaj_serving_{name}_total{{project="p",endpoint="e",revision="1"}} {total}\n' in shown
    assert 'falaj_serving_pinned_total{project="p",endpoint="e",revision="2"} 0\n' in shown
    assert f'falaj_serving_seconds_count{{project="p",endpoint="e",revision="1"}} {2 * ENOUGH + 1}\n' in shown
    assert figures.shed() == 9  # a worker more helps these callers, too
    assert 2.5 < figures.late([ENDPOINT_SEEN]) < 3.6
    (first, second), _ = figures.take()
    assert (first.requests, first.errors, first.shed, first.rows, first.latencies) == (6, 0, 1, 5, counts(1))
    assert first.pinned == PinnedReport(requests=4, errors=2, shed=8, rows=6, latencies=tuple(2 * one for one in slow))
    assert second.pinned is None


def test_logged_calls_that_had_to_go_are_counted():
    figures = Figures()
    call = CallReport(
        endpoint=ENDPOINT, revision=1, id="", at=Moment(1), caller="", status="ok", ms=1.0, inputs="{}", outputs="{}"
    )
    figures.gather([did(requests=9, unlogged=2, batch_size=4)], [call] * MOST_CALLS)
    figures.gather([], [call] * 30)
    assert 'falaj_serving_unlogged_total{project="p",endpoint="e",revision="1"} 32\n' in figures.text(
        [ENDPOINT_SEEN], workers=1, serial=1
    )
    (one,), _ = figures.take()
    assert (one.requests, one.unlogged, one.batch_size) == (9, 32, 4)
    assert figures.calls < MOST_CALLS
    figures.gather([], [call] * MOST_CALLS)  # before the revision did anything more
    (one,), _ = figures.take()
    assert one.unlogged > 0


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


def test_how_busy_the_host_is_and_what_waits_are_gauges():
    cards = (CardLoad(busy=0.71, memory_mib=81_920, memory_used_mib=1024), CardLoad(memory_mib=40_960))
    load = PlaneLoad(busy=0.63, calls=12, rows=340, cards=cards)
    text = Figures().text([ENDPOINT_SEEN], workers=2, serial=1, load=load, waiting={(ENDPOINT, 1): 40})
    families = {family.name: family for family in text_string_to_metric_families(text)}
    told = {name: [(one.labels.get("card"), one.value) for one in family.samples] for name, family in families.items()}
    assert told["falaj_plane_busy_share"] == [(None, 0.63)]
    assert told["falaj_plane_calls_in_hand"] == [(None, 12)]
    assert told["falaj_plane_rows_waiting"] == [(None, 340)]
    assert told["falaj_plane_gpu_busy_share"] == [("0", 0.71)]  # the other one does not say
    assert told["falaj_plane_gpu_memory_bytes"] == [("0", 80 * 2**30), ("1", 40 * 2**30)]
    assert told["falaj_plane_gpu_memory_used_bytes"] == [("0", 2**30), ("1", 0)]
    (waiting,) = families["falaj_serving_rows_waiting"].samples
    assert (waiting.labels, waiting.value) == ({"project": "p", "endpoint": "e", "revision": "1"}, 40)


def test_a_host_without_gpus_shows_none():
    text = Figures().text([], workers=1, serial=1)
    assert "falaj_plane_busy_share 0.0\n" in text
    assert "gpu" not in text


def test_what_the_reader_may_not_see_is_not_shown():
    figures = Figures()
    figures.gather([did(requests=2)], [])
    text = figures.text([], workers=1, serial=1)
    assert "falaj_plane_workers 1" in text
    assert 'endpoint="e"' not in text


def test_the_last_cold_start_is_shown_and_outlives_what_says_nothing_of_it():
    figures = Figures()
    figures.gather([did(cold_start_ms=2500.0)], [])
    figures.gather([did(requests=1)], [])
    assert 'falaj_serving_cold_start_seconds{project="p",endpoint="e",revision="1"} 2.5\n' in figures.text(
        [ENDPOINT_SEEN], workers=1, serial=1
    )


def test_what_workers_did_on_their_ladders_is_added_up_and_shown():
    figures = Figures()

    def on(requests: int, falls: int, remark: str = "") -> RevisionReport:
        int8 = RungReport(name="int8", requests=requests, falls=falls, remark=remark)
        return did(rungs=(RungReport(name="original", requests=1), int8))

    figures.gather([on(5, 1, "It is no faster here.")], [])
    figures.gather([on(2, 0)], [])
    standing = {(ENDPOINT, 1, "original"): 1, (ENDPOINT, 1, "int8"): 2}
    text = figures.text([ENDPOINT_SEEN], workers=3, serial=1, standing=standing)
    told = {
        (sample.name, sample.labels.get("variant")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert told["falaj_serving_rung_requests_total", "int8"] == 7
    assert told["falaj_serving_rung_falls_total", "int8"] == 1
    assert told["falaj_serving_rung_workers", "int8"] == 2
    ((gathered,), _) = figures.take()
    assert [(one.name, one.requests, one.remark) for one in gathered.rungs] == [
        ("original", 2, ""),
        ("int8", 7, "It is no faster here."),
    ]


def test_how_late_calls_are_is_told_by_the_worst_p99_over_its_objective_and_begins_anew():
    slow, fast = counts(*[bucket_of(0.3)] * ENOUGH), counts(*[bucket_of(0.001)] * ENOUGH)
    other = replace(ENDPOINT_SEEN, id="5" * 32, latency_ms=1000)
    figures = Figures()
    figures.gather([did(latencies=fast), did(endpoint=other.id, latencies=slow)], [])
    assert 0.25 < figures.late([ENDPOINT_SEEN, other]) < 0.36
    assert figures.late([ENDPOINT_SEEN, other]) == 0
    figures.gather([did(latencies=slow)], [])
    assert 2.5 < figures.late([ENDPOINT_SEEN, other]) < 3.6


def test_few_calls_and_copies_for_a_shadow_do_not_make_an_endpoint_late():
    slow = counts(*[bucket_of(0.3)] * ENOUGH)
    trial = replace(ENDPOINT_SEEN, arms=(*ENDPOINT_SEEN.arms, Arm(revision=2, share=10_000, role="shadow")))
    figures = Figures()
    figures.gather([did(latencies=counts(bucket_of(0.3))), did(revision=2, latencies=slow)], [])
    assert figures.late([trial]) == 0
