"""Checkpoints outlive the tries of a job, open with one key, and go when nobody goes on from them any more."""

import json
import os
import signal
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Invalid, NotFound
from falaj.database.work import UnitOfWork
from falaj.jobs.checkpoints import CheckpointKeeper
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job
from falaj.jobs.operations.secrets import LIST_SECRETS, ListSecrets
from falaj.jobs.operations.words import Resources
from falaj.jobs.store.tables import secrets
from falaj.keys.errors import KeyDestroyed
from falaj.keys.ring import project_key
from falaj.storage.store import hold_key, keys
from tests.jobs.cluster import START, Cluster, run, settle
from tests.jobs.yard import PROJECT, Yard

WHOLE = Resources(cpus=1.0, memory_mib=64)  # the whole host
# Counts, and saves its count and who began; it is over three counts after it was begun for the fourth time.
COUNTING = """
import hashlib, json, os, pathlib, signal, sys, time
place = pathlib.Path(os.environ["FALAJ_CHECKPOINTS"], "count.json")
saved = json.loads(place.read_text()) if place.exists() else {"count": 0, "begun": []}
key = hashlib.sha256(bytes.fromhex(os.environ["FALAJ_CHECKPOINT_KEY"])).hexdigest()
saved["begun"].append({"job": os.environ["FALAJ_JOB"], "try": os.environ["FALAJ_TRY"], "from": saved["count"], "key": key})
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("ready", os.getpid(), flush=True)
while len(saved["begun"]) < 4 or saved["count"] < saved["begun"][-1]["from"] + 3:
    saved["count"] += 1
    place.with_suffix(".new").write_text(json.dumps(saved))
    place.with_suffix(".new").rename(place)
    time.sleep(0.02)
print(json.dumps(saved))
"""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    made = Yard(tmp_path_factory.mktemp("yard"), settings="[jobs]\ncpus = 1.0\nleast_run_seconds = 0\n")
    try:
        yield made
    finally:
        made.close()


def folder_of(yard: Yard, job: str) -> Path:
    return yard.platform.home.jobs / "checkpoints" / job


def counted(yard: Yard, job: str) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads((folder_of(yard, job) / "count.json").read_text())
    except FileNotFoundError:
        return {"count": 0, "begun": []}
    return read


def goes_on(yard: Yard, job: str, times: int) -> dict[str, Any]:
    """Once it was begun so many times, and has counted on."""
    found: dict[str, Any] = yard.when(
        lambda: counted(yard, job),
        lambda saved: len(saved["begun"]) == times and saved["count"] > saved["begun"][-1]["from"] + 2,
    )
    return found


def processes_of(job: str) -> list[int]:
    """That see its id, as the host numbers them."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and f"FALAJ_JOB={job}".encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def keeper_of(yard: Yard, job: str) -> int:
    (attempt, *_) = yard.call(declared.LIST_ATTEMPTS, declared.OneJob(project=PROJECT, job=job)).items
    return int(json.loads((yard.platform.home.jobs / "attempts" / attempt.id / "status.json").read_text())["keeper"][0])


def test_a_job_goes_on_where_it_was_after_preemption_and_kill_9_and_when_it_is_repeated(yard: Yard):
    job = yard.submit("python", "-c", COUNTING, checkpoints=True, resources=WHOLE, priority="low").job
    goes_on(yard, job.id, 1)
    urgent = yard.run("true", resources=WHOLE, priority="urgent")  # takes its place through the queue
    assert urgent.state == "done"
    goes_on(yard, job.id, 2)
    os.kill(keeper_of(yard, job.id), signal.SIGKILL)
    goes_on(yard, job.id, 3)
    for pid in processes_of(job.id):
        os.kill(pid, signal.SIGKILL)
    failed = yard.ended(job.id)
    assert (failed.state, failed.code, failed.attempts) == ("failed", 137, 3)
    assert {"preempted", "lost"} <= set(yard.events(job.id))
    again = retried(yard, job)
    over = yard.ended(again.id)
    assert over.state == "done", (over.words, yard.log(again.id))
    saved = json.loads(yard.log(again.id).splitlines()[-1])
    begun = saved["begun"]
    assert [(one["job"], one["try"]) for one in begun] == [(job.id, "1"), (job.id, "2"), (job.id, "3"), (again.id, "1")]
    assert [one["from"] for one in begun] == sorted({one["from"] for one in begun})
    assert len({one["key"] for one in begun}) == 1
    yard.when(lambda: [folder_of(yard, one).exists() for one in (job.id, again.id)], lambda there: there == [False, False])


LOOK = """
import json, os
found = {}
for top in ("/", "/job", os.environ["PROBED"]):
    try:
        found[top] = sorted(os.listdir(top))
    except OSError as error:
        found[top] = type(error).__name__
print(json.dumps([found, os.environ.get("FALAJ_CHECKPOINTS"), os.environ.get("FALAJ_CHECKPOINT_KEY", "")]))
"""


def looks(yard: Yard, **fields: Any) -> str:
    probed = declared.Setting(name="PROBED", value=str(yard.platform.home.jobs / "checkpoints"))
    return yard.submit("python", "-c", LOOK, variables=(probed,), **fields).job.id


def looked(yard: Yard, job: str) -> tuple[dict[str, Any], str | None, str]:
    assert yard.ended(job).state == "done", yard.log(job)
    found, place, key = json.loads(yard.log(job))
    return found, place, key


def test_a_job_reaches_its_own_folder_alone_and_one_without_checkpoints_has_none(yard: Yard):
    beside = yard.submit("sleep", "60", checkpoints=True, grace=0).job
    yard.running(beside.id)
    own, none = looks(yard, checkpoints=True), looks(yard)
    found, place, key = looked(yard, own)
    assert (place, found["/job"]) == ("/checkpoints", ["output", "source", "tmp"])
    assert "checkpoints" in found["/"]
    assert beside.id not in json.dumps(found)
    assert len(key) == 64
    found, place, key = looked(yard, none)
    assert ("checkpoints" in found["/"], place, key) == (False, None, "")
    yard.cancel(beside.id)


def test_checkpoints_count_as_the_disk_that_a_job_may_fill(yard: Yard):
    fill = "head -c 30000000 /dev/zero > $FALAJ_CHECKPOINTS/full; sleep 30"
    job = yard.run("sh", "-c", fill, checkpoints=True, disk_mib=16)
    assert (job.state, job.cause) == ("failed", "disk")


def test_nobody_says_himself_whose_checkpoints_a_job_goes_on_from(yard: Yard):
    other = yard.run("false", checkpoints=True)
    with pytest.raises(Invalid, match="falaj job retry"):
        yard.submit("true", checkpoints=True, continues=(other.id,))
    with pytest.raises(Invalid, match="FALAJ_CHECKPOINTS"):
        yard.submit("true", secrets=("FALAJ_CHECKPOINTS",))
    assert yard.call(LIST_SECRETS, ListSecrets(project=PROJECT)).items == ()


def test_what_was_done_begins_anew_and_what_failed_goes_on_from_all_that_it_repeats(yard: Yard):
    done, first = yard.submit("true", checkpoints=True).job, yard.submit("false", checkpoints=True).job
    yard.ended(done.id)
    yard.ended(first.id)
    second = retried(yard, first)
    assert (retried(yard, done).spec.continues, second.spec.continues) == ((), (first.id,))
    yard.ended(second.id)
    assert retried(yard, second).spec.continues == (second.id, first.id)


def retried(yard: Yard, job: Job) -> Job:
    again: Job = yard.call(declared.RETRY_JOB, declared.Retry(project=PROJECT, job=job.id)).job
    return again


# Who keeps the folders


def test_folders_go_at_once_when_their_job_is_done_and_later_when_it_may_be_repeated(small: Cluster, tmp_path: Path):
    root, outside = tmp_path / "checkpoints", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    controller = small.controller()
    done, failed, goes = small.submit("1"), small.submit("1", "failed", retries=0), small.submit("1000000")
    stranger = "0" * 32
    for name in (done, failed, goes, stranger):
        (root / name / "deep").mkdir(parents=True)
        (root / name / "link").symlink_to(outside)
    keeper = CheckpointKeeper(small.database, small.clock, root, 7 * DAY)
    keeper.step()
    assert len(list(root.iterdir())) == 4
    settle(controller)
    small.clock.forward(2)
    settle(controller)
    assert (small.job(done).state, small.job(failed).state) == ("done", "failed")
    keeper.step()
    assert {place.name for place in root.iterdir()} == {failed, goes, stranger}
    small.clock.moment = Moment(small.clock.moment + 8 * DAY)
    keeper.step()
    assert {place.name for place in root.iterdir()} == {goes, stranger}
    (root / goes).rename(root / f"{goes}.gone")  # whoever removed it died meanwhile
    CheckpointKeeper(small.database, small.clock, root, 0).step()
    assert [place.name for place in root.iterdir()] == [stranger]
    assert (outside / "kept").read_text() == "x"


def test_what_a_job_in_line_goes_on_from_stays_and_on_a_full_disk_the_rest_goes_early(
    small: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, second, third = (small.submit("1", "failed", retries=0) for _ in range(3))
    controller, root = small.controller(), tmp_path / "checkpoints"
    run(small, controller, 2)
    again = small.row("1", zone="away", checkpoints=True, continues=(first,))
    small.add([again])
    for name in (first, second, third):
        (root / name).mkdir(parents=True)
    keeper = CheckpointKeeper(small.database, small.clock, root, DAY)

    def left_when(free: Iterator[int]) -> list[str]:
        with monkeypatch.context() as changed:
            changed.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=next(free), f_blocks=1000, f_frsize=1))
            keeper.step()
        return sorted(place.name for place in root.iterdir())

    assert left_when(repeat(50)) == sorted((first, second, third))
    assert len(left_when(iter([49, 49, 50]))) == 2  # there is room once one is away
    assert left_when(repeat(0)) == [first]
    small.clock.moment = Moment(small.clock.moment + 2 * DAY)
    assert left_when(repeat(0)) == [first]
    small.cancel(again["id"])
    run(small, controller, 2)
    small.clock.moment = Moment(small.clock.moment + DAY)
    assert left_when(repeat(50)) == []


def test_a_platform_without_checkpoints_has_nothing_to_remove(small: Cluster, tmp_path: Path):
    assert CheckpointKeeper(small.database, small.clock, tmp_path / "none", 0).step() is False


# Their key


def test_a_key_is_one_job_s_own_and_goes_with_its_project_s(cluster: Cluster):
    def key(project: str, job: str) -> str:
        return cluster.secrets.checkpoint_key(cluster.database, project, job, START)

    first = key(cluster.project, "a")
    assert len(bytes.fromhex(first)) == 32
    assert (key(cluster.project, "a"), key(cluster.project, "b") == first) == (first, False)
    cluster.database.write(lambda work: cluster.secrets.rewrap(work, cluster.project))
    assert key(cluster.project, "a") == first
    assert first not in str([tuple(row) for row in cluster.rows(secrets)])
    assert cluster.database.read(lambda work: cluster.secrets.missing(work, cluster.project, ["FALAJ_CHECKPOINTS"]))
    with pytest.raises(NotFound):
        cluster.database.read(lambda work: cluster.secrets.opened(work, cluster.project, ["FALAJ_CHECKPOINTS"]))

    def shred(work: UnitOfWork) -> None:
        hold_key(work, cluster.project)
        cluster.secrets.forget(work, cluster.project, START)
        work.execute(keys.update().values(shredded=START))

    cluster.database.write(shred)
    cluster.ring.destroy(project_key(cluster.project))
    with pytest.raises(KeyDestroyed):
        key(cluster.project, "a")
    assert cluster.ring.versions(project_key(cluster.project)) == ()  # nor is there a new one


def test_two_that_make_a_project_s_first_key_at_once_have_the_same(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    def key() -> str:
        return cluster.secrets.checkpoint_key(cluster.database, cluster.project, "a", START)

    first = key()
    with monkeypatch.context() as changed:  # as it looks to who asked before the other was done
        changed.setattr(cluster.database, "read", lambda *_, **__: [])
        assert key() == first


def test_what_repeats_a_job_has_the_key_of_the_first(small: Cluster):
    first, other = small.row("1", checkpoints=True), small.row("1", checkpoints=True)
    again = small.row("1", checkpoints=True, continues=("f" * 32, first["id"]))
    small.add([first, other, again])
    settle(small.controller())
    launches = {launch.job: launch for launch in small.timers.launches.values()}
    keys_of = {job: launch.variables["FALAJ_CHECKPOINT_KEY"] for job, launch in launches.items()}
    assert keys_of[first["id"]] == keys_of[again["id"]] != keys_of[other["id"]]
    assert launches[again["id"]].checkpoints == (again["id"], "f" * 32, first["id"])
