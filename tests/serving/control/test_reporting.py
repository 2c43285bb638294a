"""What planes report: how endpoints are, what they did, and which calls were sampled."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from falaj.app.certificates import self_signed
from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import Forbidden, NotFound, Unavailable
from falaj.base.ids import new_id
from falaj.governance.roles import Role
from falaj.serving.latencies import BUCKETS
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations import planes
from falaj.serving.operations.endpoints import Options
from falaj.serving.operations.loads import CardLoad, PlaneLoad
from falaj.serving.store.tables import instances, logs, windows
from falaj.storage.operations import BLOB_LIST, KEY_SHRED, ListBlobs, ShredProject
from falaj.storage.service import BlobService
from tests.serving.control.platform import PROJECT, Platform, called, said


def traffic(platform: Platform, seconds: int = 900, name: str = "scores") -> tuple[declared.TrafficPoint, ...]:
    request = declared.ReadTraffic(project=PROJECT, endpoint=name, seconds=seconds)
    return platform.call(declared.READ_TRAFFIC, request).points


def read_logs(platform: Platform, token: str = "", **fields: object) -> declared.LoggedCalls:
    request = declared.ReadLogs(project=PROJECT, endpoint="scores", **fields)  # type: ignore[arg-type]
    return platform.call(declared.READ_LOGS, request, token)


def count(platform: Platform, table: object) -> int:
    counted = select(func.count()).select_from(table)  # type: ignore[arg-type]
    return int(platform.app.database.read(lambda work: work.execute(counted).scalar_one()))


# How an endpoint is


def test_an_endpoint_is_ready_once_a_plane_answers_with_its_split(platform: Platform) -> None:
    endpoint = platform.deployed()
    assert (endpoint.planes, endpoint.ready, endpoint.url) == (0, 0, "")
    assert "falaj serve" in endpoint.problems[0]
    plane = platform.plane()
    plane.report(said(endpoint, 1, ready=False, problem="The file is still on its way."))
    waiting = platform.show()
    assert (waiting.planes, waiting.ready, waiting.url) == (1, 0, "")
    assert waiting.problems == ("Plane 'first', revision 1: The file is still on its way.",)
    plane.report(said(endpoint, 1))
    ready = platform.show()
    assert (ready.planes, ready.ready, ready.url, ready.problems) == (1, 1, "http://127.0.0.1:8500", ())
    platform.deploy(1)
    assert platform.show().ready == 0
    plane.report(said(endpoint, 2))
    assert platform.show().ready == 1


def test_a_plane_with_an_older_state_is_not_ready_though_it_has_the_revision(small: Platform) -> None:
    endpoint = small.deployed(2)
    plane = small.plane()
    small.promote(1)
    plane.report(said(endpoint, 1), said(endpoint, 2), serial=endpoint.serial)
    assert small.show().ready == 0


def test_a_plane_that_fell_silent_counts_no_more(small: Platform) -> None:
    endpoint = small.deployed()
    small.plane().report(said(endpoint, 1))
    small.clock.forward(31 * SECOND)
    silent = small.show()
    assert (silent.planes, silent.ready, silent.url) == (0, 0, "")


def test_the_certificate_that_a_plane_shows_is_told_to_callers_and_nothing_else_is(small: Platform, tmp_path: Path) -> None:
    endpoint, plane = small.deployed(), small.plane()
    certificate, key = (file.read_text() for file in self_signed(tmp_path, ["127.0.0.1"]))
    plane.report(said(endpoint, 1), certificate=certificate)
    small.plane("second").report(said(endpoint, 1), certificate=certificate)
    assert small.show().certificates == (certificate,)
    for odd in (
        "",
        "no certificate",
        key,
        certificate.replace("M", "m"),
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
    ):
        plane.report(said(endpoint, 1), certificate=odd)
        assert small.show().certificates == (certificate,)  # of the second alone
    plane.report(said(endpoint, 1), certificate=f"{certificate}and a word to {key}")
    assert small.show().certificates == (certificate,)


def test_what_a_plane_has_no_more_is_forgotten(small: Platform) -> None:
    endpoint = small.deployed(2)
    plane = small.plane()
    plane.report(said(endpoint, 1), said(endpoint, 2))
    assert count(small, instances) == 2
    plane.report(said(endpoint, 2))
    assert count(small, instances) == 1


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://a b", 'https://x/"onclick="', "//elsewhere", "http://"])
def test_a_plane_can_send_nobody_but_to_an_address_of_the_web(small: Platform, url: str) -> None:
    endpoint = small.deployed()
    small.plane().report(said(endpoint, 1), url=url)
    assert small.show().url == ""


# What it did


def test_how_long_a_cold_start_took_is_shown_by_the_plane_where_it_took_longest(small: Platform) -> None:
    endpoint = small.deployed()
    assert small.show().revisions[0].cold_start_ms == 0
    first, second = small.plane("first"), small.plane("second")
    first.did(endpoint, 1, cold_start_ms=120.0)
    second.did(endpoint, 1, cold_start_ms=900.0)
    second.did(endpoint, 1, requests=3)  # told once, and remembered
    assert small.show().revisions[0].cold_start_ms == 900


def test_reports_of_all_planes_add_up(platform: Platform) -> None:
    endpoint = platform.deployed()
    one, other = platform.plane("one"), platform.plane("other")
    fast, slow = [0] * BUCKETS, [0] * BUCKETS
    fast[10], slow[40] = 90, 10
    for plane, latencies in ((one, fast), (other, slow), (other, slow)):
        plane.did(endpoint, 1, sum(latencies), 1, rows=sum(latencies), batches=2, shed=3, latencies=tuple(latencies))
    (point,) = traffic(platform)
    assert (point.requests, point.errors, point.shed, point.rows, point.batches) == (110, 3, 9, 110, 6)
    assert point.seconds == 10
    assert point.p50 < 1 < point.p99


def test_calls_whose_caller_chose_the_revision_are_in_its_traffic_and_told_apart(platform: Platform) -> None:
    endpoint = platform.deployed()
    plane, slow = platform.plane(), [0] * BUCKETS
    slow[40] = 30
    pinned = planes.PinnedReport(requests=30, errors=2, shed=1, rows=60, batches=3, latencies=tuple(slow))
    plane.did(endpoint, 1, 10, 1, rows=10, batches=2)
    plane.did(endpoint, 1, pinned=pinned)
    plane.did(endpoint, 1, 5, pinned=pinned)
    (point,) = traffic(platform)
    assert (point.requests, point.pinned, point.errors, point.shed) == (75, 60, 5, 2)
    assert (point.rows, point.batches) == (130, 8)
    assert point.p50 > 1
    (later,) = traffic(platform, 7200)  # in minutes
    assert (later.requests, later.pinned) == (75, 60)


def test_a_report_that_comes_twice_counts_once(platform: Platform) -> None:
    endpoint = platform.deployed()
    plane = platform.plane()
    first = plane.report(said(endpoint, 1, requests=5))
    second = plane.report(said(endpoint, 1, requests=7))
    for again in (first, second, replace(second, number=1)):
        platform.call(planes.SEND_REPORT, again, plane.token)
    assert traffic(platform)[0].requests == 12


def test_what_a_former_run_sends_late_does_not_count_again(small: Platform) -> None:
    endpoint = small.deployed()
    plane = small.plane()
    before = plane.report(said(endpoint, 1, requests=5))
    plane.run, plane.number = new_id(small.clock.now()), 0
    plane.report(said(endpoint, 1, requests=1))
    small.call(planes.SEND_REPORT, before, plane.token)
    assert traffic(small)[0].requests == 6


def test_a_plane_cannot_speak_of_endpoints_that_are_not_its_zones(platform: Platform) -> None:
    endpoint = platform.deployed()
    platform.project("abroad", "berlin")
    there = platform.plane("there", "berlin")
    call = called(endpoint, "c", platform.clock.now())
    there.report(said(endpoint, 1, requests=5, quarantined=True), calls=[call])
    platform.step()
    assert traffic(platform) == ()
    assert read_logs(platform).items == ()
    assert platform.show().revisions[0].quarantined == ""


def test_a_revision_that_was_never_made_is_not_counted(small: Platform) -> None:
    endpoint = small.deployed()
    small.plane().report(said(endpoint, 99, requests=5), replace(said(endpoint, 1, requests=5), endpoint="f" * 32))
    assert (count(small, windows), count(small, instances)) == (0, 0)


def test_numbers_as_large_as_they_may_be_break_nothing(platform: Platform) -> None:
    endpoint = platform.deployed()
    plane = platform.plane()
    most = 2**62
    for _ in range(3):
        plane.did(
            endpoint, 1, most, most, shed=most, rows=most, batches=most, latencies=(most,) * 200, cold_start_ms=float("nan")
        )
    assert traffic(platform)[0].requests == most


def test_how_busy_planes_are_is_told_with_the_traffic_the_busiest_first(platform: Platform) -> None:
    platform.deployed()
    idle, busy, gone, _ = (platform.plane(name) for name in ("idle", "busy", "gone", "silent"))
    gone.report(load=PlaneLoad(busy=0.99))
    platform.clock.forward(31 * SECOND)
    idle.report(workers=1)
    card = CardLoad(busy=0.71, memory_mib=81_920, memory_used_mib=12_595)
    busy.report(load=PlaneLoad(busy=0.2))
    busy.report(load=PlaneLoad(busy=0.634, calls=12, rows=1340, cards=(card, CardLoad(memory_mib=1024))))
    found = platform.call(declared.READ_TRAFFIC, declared.ReadTraffic(project=PROJECT, endpoint="scores")).hosts
    assert [(one.plane, one.workers, one.load.calls) for one in found] == [("busy", 2, 12), ("idle", 1, 0)]
    assert found[0].sentence == (
        "Plane busy: 2 workers use 63 % of a core each, 12 calls in hand, 1,340 rows waiting or at work, "
        "GPU 0 71 % busy with 12.3 of 80.0 GiB, GPU 1 0.0 of 1.0 GiB."
    )
    assert found[1].sentence == "Plane idle: 1 worker uses 0 % of a core, 0 calls in hand, 0 rows waiting or at work."
    listed = {one.name: one.load for one in platform.call(planes.LIST_PLANES, planes.ListPlanes()).items}
    assert listed["gone"] == PlaneLoad(busy=0.99)
    assert (listed["busy"], listed["silent"]) == (found[0].load, None)


def test_a_plane_that_says_what_is_no_number_of_itself_can_be_read_of_nevertheless(small: Platform) -> None:
    small.deployed()
    nan, infinite = float("nan"), float("inf")
    small.plane().report(load=PlaneLoad(busy=nan, cards=(CardLoad(busy=infinite),)))
    (found,) = small.call(declared.READ_TRAFFIC, declared.ReadTraffic(project=PROJECT, endpoint="scores")).hosts
    assert found.load == PlaneLoad(busy=0.0, cards=(CardLoad(busy=None),))


def test_points_are_few_however_long_one_looks_back(small: Platform) -> None:
    endpoint = small.deployed()
    plane = small.plane()
    for _ in range(300):
        plane.did(endpoint, 1, 1)
        small.clock.forward(12 * SECOND)
    for seconds in (60, 900, 3600, 7200, 30 * 86_400):
        points = traffic(small, seconds)
        assert 0 < len(points) <= 200
        assert sum(point.requests for point in points) <= 300
    assert sum(point.requests for point in traffic(small, 7200)) == 300
    assert {point.seconds for point in traffic(small, 900)} == {10.0}


def test_old_windows_are_forgotten_fine_ones_first(small: Platform) -> None:
    endpoint = small.deployed()
    plane = small.plane()
    plane.did(endpoint, 1, 1, pinned=planes.PinnedReport(requests=1))
    assert count(small, windows) == 4
    small.clock.forward(HOUR + MINUTE)
    small.app.serving.clean(small.clock.now())
    assert (count(small, windows), len(traffic(small, 7200))) == (2, 1)
    small.clock.forward(31 * DAY)
    small.app.serving.clean(small.clock.now())
    assert count(small, windows) == 0


# Sampled calls


def test_sampled_calls_are_read_newest_first_page_by_page(platform: Platform) -> None:
    endpoint = platform.deployed()
    plane = platform.plane()
    start = platform.clock.now()
    for batch in range(3):
        calls = [called(endpoint, f"{batch}-{number}", Moment(start + batch * 10 + number)) for number in range(3)]
        plane.report(calls=calls)
        platform.clock.forward(SECOND)
    seen, cursor = [], ""
    while True:
        page = read_logs(platform, limit=2, cursor=cursor)
        seen += [call.id for call in page.items]
        if not (cursor := page.next):
            break
    assert seen == [f"{batch}-{number}" for batch in (2, 1, 0) for number in (2, 1, 0)]
    assert read_logs(platform).items[0].inputs == '{"a": 1}'


def test_sampled_calls_lie_sealed_in_the_endpoints_zone_and_nowhere_else(small: Platform) -> None:
    secret = "4111-1111-1111-1111"
    small.project("abroad", "home", "berlin")
    small.register(project="abroad")
    endpoint = small.deploy(1, project="abroad", zone="berlin", options=Options(log_share=10_000)).endpoint
    plane = small.plane("there", "berlin")
    plane.report(calls=[called(endpoint, "c", small.clock.now(), inputs=f'{{"card": "{secret}"}}')])
    small.app.sequencer.step(close_all_windows=True)
    blobs = small.call(BLOB_LIST, ListBlobs(project="abroad")).items
    assert "berlin" in {blob.zone for blob in blobs}
    for file in small.app.home.path.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_logs_are_for_those_who_may_read_them_and_reading_leaves_a_leaf(small: Platform) -> None:
    endpoint = small.deployed()
    small.plane().report(calls=[called(endpoint, "c", small.clock.now())])
    viewer, scientist = small.person("vera", Role.VIEWER), small.person("sam", Role.SCIENTIST)
    with pytest.raises(Forbidden):
        read_logs(small, viewer)
    assert len(read_logs(small, scientist).items) == 1
    assert [leaf.outcome for leaf in small.leaves("endpoint.logs")] == ["done", "refused"]


def test_logs_end_with_their_time_with_the_endpoint_and_with_the_projects_key(platform: Platform) -> None:
    endpoint = platform.deployed()
    plane = platform.plane()
    plane.report(calls=[called(endpoint, "old", platform.clock.now())])
    platform.clock.forward(31 * DAY)
    plane.report(calls=[called(endpoint, "new", platform.clock.now())])
    platform.app.serving.clean(platform.clock.now())
    assert [call.id for call in read_logs(platform).items] == ["new"]
    platform.call(KEY_SHRED, ShredProject(project=PROJECT, confirm=PROJECT))
    assert read_logs(platform).items == ()
    plane.report(said(endpoint, 1, requests=3), calls=[called(endpoint, "late", platform.clock.now())])
    assert traffic(platform)[0].requests == 3
    platform.call(declared.DELETE_ENDPOINT, declared.OneEndpoint(project=PROJECT, endpoint="scores"))
    assert count(platform, logs) == 0
    with pytest.raises(NotFound):
        read_logs(platform)


def test_calls_that_nothing_took_in_are_counted_with_those_that_a_plane_had_no_room_for(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, plane = platform.deployed(), platform.plane()
    calls = [called(endpoint, str(number), platform.clock.now()) for number in range(3)]
    plane.report(said(endpoint, 1, requests=5, unlogged=2), calls=calls)

    def full(*_: object) -> None:
        raise Unavailable("The storage takes nothing in.")

    with monkeypatch.context() as patch:
        patch.setattr(BlobService, "receive", full)
        plane.report(said(endpoint, 1, requests=5), calls=calls)
    plane.report(said(endpoint, 1))
    (point,) = traffic(platform)
    assert (point.requests, point.unlogged, len(read_logs(platform).items)) == (10, 5, 3)


def test_a_report_leaves_telemetry_and_no_more(small: Platform) -> None:
    endpoint = small.deployed()
    plane = small.plane()
    for _ in range(3):
        plane.did(endpoint, 1, 1)
    (leaf,) = small.leaves("plane.report")
    assert leaf.facts["count"] == 3
