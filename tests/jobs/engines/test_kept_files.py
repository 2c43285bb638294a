"""Files of a job that outlive a try, in both ways that sandboxes are built: checkpoints, and outputs on their way out."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.retrying import Ending, judge
from falaj.jobs.running import checkpoints, outputs
from tests.jobs.engines.local import WAYS, ended, launched, logged
from tests.jobs.engines.receiving import RUN, receiving

JOB, AGAIN, OTHER = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture(params=WAYS)
def engine(request, tmp_path):
    return LocalEngine(tmp_path / "jobs", Site(zone="here", checkpoints=tmp_path / "shared", **WAYS[request.param]))


def run(engine, script, **changes):
    attempt = launched(engine, "sh", "-c", script, **changes)
    return ended(engine, attempt), logged(engine, attempt)


# Checkpoints


def test_what_one_try_saves_the_next_one_reads_and_changes_whoever_it_is(engine, tmp_path):
    end, log = run(engine, "cd $FALAJ_CHECKPOINTS && mkdir deep && echo 1 > deep/count", checkpoints=(JOB,))
    assert end.cause == "done", log
    own = tmp_path / "shared" / JOB
    if os.geteuid() == 0 and own.stat().st_uid:  # as it is where tries were different users
        outside = tmp_path / "outside"
        outside.write_text("x")
        (own / "link").symlink_to(outside)
        for place in (own, own / "deep", own / "deep" / "count"):
            os.chown(place, 1_899_999_999, 1_899_999_999)
    end, log = run(engine, "cd $FALAJ_CHECKPOINTS/deep && cat count && echo 2 > count && rm count", checkpoints=(JOB,))
    assert (end.cause, log) == ("done", "1\n")
    if os.geteuid() == 0:
        assert not (tmp_path / "outside").exists() or (tmp_path / "outside").stat().st_uid == 0


def test_what_repeats_a_job_takes_its_checkpoints_and_nobody_else_has_them_then(engine, tmp_path):
    run(engine, "echo 7 > $FALAJ_CHECKPOINTS/count", checkpoints=(JOB,))
    read = "cat $FALAJ_CHECKPOINTS/count 2>/dev/null || echo none"
    assert run(engine, read, checkpoints=(AGAIN, "d" * 32, JOB))[1] == "7\n"
    assert run(engine, read, checkpoints=(OTHER, JOB))[1] == "none\n"
    assert run(engine, read, checkpoints=(AGAIN, JOB))[1] == "7\n"
    assert sorted(checkpoints.kept(tmp_path / "shared")) == [AGAIN, OTHER]


def test_a_folder_that_cannot_be_had_ends_the_try_and_says_so(engine, tmp_path):
    """As what its host has to answer for: it is tried again, and what was saved is not given up."""
    root = tmp_path / "shared"
    (root / JOB).symlink_to(tmp_path)
    end, _ = run(engine, "true", checkpoints=(JOB,))
    assert (end.cause, end.words) == ("lost", "its folder for checkpoints cannot be had: it is a link")


def test_no_folder_is_made_where_everybody_may_write_nor_where_there_is_a_file(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match="everybody may write"):
        checkpoints.taken([str(tmp_path / JOB)], 0)
    tmp_path.chmod(0o700)
    (tmp_path / JOB).write_text("x")
    with pytest.raises(FileExistsError):
        checkpoints.taken([str(tmp_path / JOB)], 0)


def test_checkpoints_that_cannot_be_taken_over_are_not_given_up(tmp_path, monkeypatch):
    (tmp_path / JOB).mkdir()
    places = [str(tmp_path / name) for name in (AGAIN, OTHER, JOB)]

    def broken(self, target):
        raise FileNotFoundError if self.name == OTHER else OSError(errno.EIO, "the disk is away")

    with monkeypatch.context() as changed:
        changed.setattr(Path, "rename", broken)
        with pytest.raises(OSError, match="the disk is away"):
            checkpoints.taken(places, 0)
    assert checkpoints.taken(places, 0) == places[0]
    assert checkpoints.kept(tmp_path) == [AGAIN]


def test_what_a_job_replaces_on_another_host_meanwhile_is_no_problem(tmp_path, monkeypatch):
    (tmp_path / JOB).mkdir()
    (tmp_path / JOB / "count").write_text("1")
    tried = []

    def chown(name, *_, **__):
        tried.append(name)
        raise FileNotFoundError

    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "fchown", lambda *_: None)
    checkpoints.taken([str(tmp_path / JOB)], 1)
    assert tried == ["count"]


def test_a_place_for_checkpoints_is_there_from_the_beginning_so_that_it_can_be_hidden(engine, tmp_path):
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["../../etc", "x", "", "A" * 32])
def test_what_is_no_job_has_no_folder(engine, name):
    with pytest.raises(Invalid, match="no id of a job"):
        launched(engine, "true", checkpoints=(name,))


# Outputs


def test_outputs_wait_for_a_platform_that_is_away(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    order = {"outputs": ["m"], "output": str(tmp_path), "zone": "here", "variables": RUN}
    (tmp_path / "m").write_text("x")
    with receiving(503, 0) as platform:
        assert outputs.keep(order, platform.url) == ""
    assert platform.files == {"outputs/m": b"x"}
    assert platform.asked == 3 * [f"PUT /v1/projects/fraud/artifacts/{'f' * 32}/file here Bearer falaj_word"]
    assert pauses == [0.5, 1.0]


@pytest.mark.parametrize(("status", "patience"), [(500, 600.0), (503, -1.0)])
def test_an_output_that_the_platform_failed_to_take_is_told_from_one_that_it_refused(tmp_path, monkeypatch, status, patience):
    monkeypatch.setattr(outputs, "PATIENCE", patience)
    order = {"outputs": ["m"], "output": str(tmp_path), "zone": "here", "variables": RUN}
    (tmp_path / "m").write_text("x")
    with receiving(status) as platform:
        words = outputs.keep(order, platform.url)
    assert words == "its output 'm' could not be sent: so it is"
    assert judge(Ending(cause="output", code=0, words=words, retries=1)).state == "waiting"


def test_an_output_that_the_platform_refuses_fails_the_try_with_its_words(engine):
    with receiving(413) as platform:
        end, _ = run(engine, "echo x > $FALAJ_OUTPUT/m", outputs=("m",), platform_url=platform.url, variables=RUN)
    assert (end.cause, end.words) == ("output", "its output 'm' cannot be kept: so it is")


def test_a_job_that_was_told_to_stop_keeps_no_outputs(engine):
    with receiving() as platform:
        script = "echo x > $FALAJ_OUTPUT/m; trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        attempt = launched(engine, "sh", "-c", script, outputs=("m",), platform_url=platform.url, variables=RUN)
        while "ready" not in logged(engine, attempt):
            time.sleep(0.01)
        engine.stop(attempt, 10_000_000)
        assert ended(engine, attempt).cause == "stopped"
    assert platform.files == {}


def test_a_job_that_is_told_to_stop_once_it_has_ended_is_done_when_its_outputs_are_kept(engine):
    with receiving(503) as platform:
        attempt = launched(
            engine, "sh", "-c", "echo x > $FALAJ_OUTPUT/m", outputs=("m",), platform_url=platform.url, variables=RUN
        )
        while not platform.asked:
            time.sleep(0.01)
        engine.stop(attempt, 10_000_000)
        assert ended(engine, attempt).cause == "done"
    assert platform.files == {"outputs/m": b"x\n"}


def test_outputs_of_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "MOST_FILES", 2)
    order = {"outputs": ["m"], "output": str(tmp_path), "zone": "", "variables": RUN}
    (tmp_path / "m").mkdir()
    for name in "abc":
        (tmp_path / "m" / name).write_text("x")
    with receiving() as platform:
        assert outputs.keep(order, platform.url) == "its outputs are more than 2 files: pack them into one"
        assert set(platform.files) == {"outputs/m/a", "outputs/m/b"}
