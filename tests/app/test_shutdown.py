"""An orderly end: what is under way finishes, nothing new is taken, and the next start finds everything in its place."""

import hashlib
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from falaj.app.home import is_running
from tests.app.conftest import MakePlatform
from tests.app.effects import Load, check, come_back, new_effect
from tests.app.mortal import DidNotStart, MortalPlatform

OCTETS = {"content-type": "application/octet-stream"}


def until(true: Callable[[], bool], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


class SlowUpload(threading.Thread):
    """An upload that is in the middle until it is let go."""

    def __init__(self, platform: MortalPlatform) -> None:
        super().__init__(daemon=True)
        self.halves = secrets.token_bytes(300_000), secrets.token_bytes(300_000)
        self.under_way, self.go_on = threading.Event(), threading.Event()
        self.answer: httpx.Response | None = None
        self.error: Exception | None = None
        self._http = platform.http()
        self.start()
        assert self.under_way.wait(30)
        until(lambda: any(platform.home.blobs.glob("incoming/*")))

    def _content(self) -> Iterator[bytes]:
        yield self.halves[0]
        self.under_way.set()
        self.go_on.wait(60)
        yield self.halves[1]

    def run(self) -> None:
        try:
            self.answer = self._http.post("/v1/projects/default/blobs", content=self._content(), headers=OCTETS)
        except httpx.HTTPError as error:
            self.error = error

    def finish(self) -> httpx.Response:
        self.go_on.set()
        self.join(60)
        assert self.error is None, self.error
        assert self.answer is not None
        return self.answer


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_an_upload_under_way_finishes_new_connections_are_refused_and_it_exits_with_0(
    make_platform: MakePlatform, ending: signal.Signals
):
    platform = make_platform().start()
    url, upload = platform.url, SlowUpload(platform)
    assert platform.process is not None
    platform.process.send_signal(ending)
    until(lambda: not accepts(url))
    assert platform.process.poll() is None, "it did not wait for the upload"
    answer = upload.finish()
    assert answer.status_code == 200, answer.text
    assert platform.wait_until_dead() == 0, platform.output
    assert not platform.home.server.exists()
    assert not platform.home.database.with_name("falaj.db-wal").exists(), "the database was not closed"
    assert not is_running(platform.home)
    come_back(platform)
    with platform.http() as http:
        content = http.get(f"/v1/projects/default/blobs/{answer.json()['id']}/content").content
    assert content == b"".join(upload.halves)


def accepts(url: str) -> bool:
    try:
        httpx.get(f"{url}/healthz", timeout=5, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def test_stopped_under_load_every_answer_holds_and_every_leaf_is_under_a_head(make_platform: MakePlatform):
    platform, load = make_platform().start(), Load()
    load.start(platform)
    time.sleep(0.7)
    assert platform.stop() == 0
    load.stop()
    assert len(load.acknowledged) > 4
    # Whatever was not answered did not happen: requests under way were finished before the end.
    happened, load.unanswered = load.unanswered, []
    come_back(platform)
    world = check(platform, load)
    assert [effect.name for effect in happened if world.id_of(effect) is not None] == []


def test_a_client_that_never_finishes_does_not_keep_it_alive_for_ever(make_platform: MakePlatform):
    platform = make_platform().start()
    upload = SlowUpload(platform)
    assert platform.stop() == 0
    upload.go_on.set()
    upload.join(60)
    assert upload.answer is None or upload.answer.status_code >= 400
    come_back(platform)
    with platform.http() as http:
        assert http.get("/v1/projects/default/blobs").json()["items"] == []
    assert list(platform.home.blobs.glob("incoming/*")) == []
    check(platform, Load())


def test_a_second_platform_on_the_same_home_is_refused_and_the_first_one_lives_on(make_platform: MakePlatform):
    first, load = make_platform().start(), Load()
    second = make_platform()
    with pytest.raises(DidNotStart) as refused:
        second.start()
    assert refused.value.status == 1
    assert "falaj down" in refused.value.output
    with first.http() as http:
        assert load.do(http, new_effect("blob"))
    check(first, load)


def test_down_ends_it_and_says_so_where_there_is_nothing_to_end(make_platform: MakePlatform):
    platform = make_platform().start()
    assert platform.falaj("down").stdout == "Stopped.\n"
    assert platform.wait_until_dead() == 0
    again = platform.falaj("down")
    assert again.returncode == 0
    assert "No platform runs" in again.stdout


def test_down_after_a_kill_finds_nothing_and_harms_nobody(make_platform: MakePlatform):
    """`server.json` of a killed platform names a process id that may belong to somebody else by now."""
    platform = make_platform().start()
    platform.kill()
    assert platform.home.server.exists()
    bystander = make_platform("bystander").start()
    stale = platform.home.server.read_text().replace(str(platform.pid), str(bystander.pid))
    platform.home.server.write_text(stale)
    assert "No platform runs" in platform.falaj("down").stdout
    assert accepts(bystander.url)


def test_two_homes_side_by_side_do_not_disturb_each_other(make_platform: MakePlatform):
    left, right = make_platform("left").start(), make_platform("right").start()
    loads = {left: Load(clients=2), right: Load(clients=2)}
    for platform, load in loads.items():
        load.start(platform)
    time.sleep(0.7)
    left.kill()
    time.sleep(0.3)
    for load in loads.values():
        load.stop()
    assert loads[right].unanswered == []
    come_back(left)
    for platform, load in loads.items():
        check(platform, load)
    with right.http(left.token) as http:
        assert http.get("/v1/projects").status_code == 401
    digests = [hashlib.sha256((platform.home.keys / "ring.json").read_bytes()).hexdigest() for platform in loads]
    assert digests[0] != digests[1]


def test_stopped_during_its_start_it_ends_and_the_next_start_works(make_platform: MakePlatform, tmp_path: Path):
    platform = make_platform()
    platform.launch()
    until(lambda: (platform.home.path / "lock").exists())
    assert platform.process is not None
    platform.process.terminate()
    platform.wait_until_dead()
    assert "Traceback" not in platform.output
    come_back(platform)
    check(platform, Load())
