"""The files of a job: whatever is sent unpacks into a folder of its own, or is refused before it is kept."""

import gzip
import hashlib
import io
import sqlite3
import tarfile
from contextlib import closing, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import FalajError, Invalid, TooLarge
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.jobs import sources
from falaj.jobs.operations import jobs as declared
from falaj.jobs.sources import count_files
from tests.app.world import state_of
from tests.jobs.yard import PROJECT, Yard, submission, tar_of


def entry(**fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo("x")
    for name, content in fields.items():
        setattr(made, name, content)
    return made


def negative_size() -> bytes:
    """An entry that says it is smaller than nothing: who goes on from there comes back to it, again and again."""
    made = tarfile.TarInfo("x")
    made.pax_headers = {"size": "-512"}
    return made.tobuf(tarfile.PAX_FORMAT) + b"\0" * 10_240


LINK = entry(type=tarfile.SYMTYPE, linkname="/etc/passwd")
REFUSED: dict[str, tuple[bytes, type[FalajError], str]] = {
    "nothing": (b"", Invalid, "no plain tar that can be read"),
    "no tar": (b"#!/bin/sh\n" * 1000, Invalid, "no plain tar that can be read"),
    "one that is cut off": (tar_of({"a": b"x" * 5000})[:2000], Invalid, "no plain tar that can be read"),
    "one that is compressed": (gzip.compress(tar_of({"a": b"x"})), Invalid, "Pack it without compression"),
    "a bomb": (gzip.compress(tar_of({"a": b"\0" * (1 << 24)})), Invalid, "Pack it without compression"),
    "a link": (tar_of({"a": LINK}), Invalid, "'a' that is neither a file nor a folder; leave links out"),
    "a hard link": (tar_of({"a": entry(type=tarfile.LNKTYPE, linkname="b")}), Invalid, "leave links out"),
    "a device": (tar_of({"a": entry(type=tarfile.CHRTYPE)}), Invalid, "neither a file nor a folder"),
    "a pipe": (tar_of({"a": entry(type=tarfile.FIFOTYPE)}), Invalid, "neither a file nor a folder"),
    "an absolute name": (tar_of({"/etc/passwd": b"x"}), Invalid, "'/etc/passwd': its names must stay within its own folder"),
    "a way up": (tar_of({"a/../../b": b"x"}), Invalid, "'a/../../b': its names must stay within its own folder"),
    "a way up at once": (tar_of({"..": b"x"}), Invalid, "must stay within its own folder"),
    "another system's way up": (tar_of({"..\\b": b"x"}), Invalid, "must stay within its own folder"),
    "less than nothing": (negative_size(), Invalid, "of -512 bytes; pack it again"),
}


@pytest.mark.parametrize(("content", "kind", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_not_unpack_into_a_folder_of_its_own_is_refused_and_not_kept(
    yard: Yard, content: bytes, kind: type[FalajError], words: str
):
    state = state_of(yard.platform.home.database)
    with pytest.raises(kind) as refused:
        yard.send(content)
    assert words in str(refused.value)
    assert state_of(yard.platform.home.database) == state


def test_one_that_is_too_large_is_refused_as_soon_as_that_is_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "MOST_BYTES", 1 << 20)
    sent = 0

    def chunks() -> Any:
        nonlocal sent
        for _ in range(100):
            sent += 1 << 18
            yield b"\0" * (1 << 18)

    with pytest.raises(TooLarge, match="A job's source may have 1 MiB; leave data, models and environments out of it"):
        sources.whole(chunks())
    assert sent == (1 << 20) + (1 << 18)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE], ids=["files", "folders"])
def test_one_with_too_many_of_anything_is_refused(monkeypatch: pytest.MonkeyPatch, kind: bytes):
    monkeypatch.setattr(sources, "MOST_FILES", 100)
    assert count_files(tar_of({f"{number}": entry(type=kind) for number in range(100)})) in (0, 100)
    with pytest.raises(TooLarge, match="A job's source may have 100 files"):
        count_files(tar_of({f"{number}": entry(type=kind) for number in range(101)}))


@given(st.binary(max_size=3000) | st.binary(max_size=600).map(lambda noise: tar_of({"a": b"x"})[:512] + noise))
def test_no_bytes_whatever_make_more_than_a_refusal(content: bytes):
    files = 0
    with suppress(Invalid, TooLarge):
        files = count_files(content)
    assert files <= len(content) // 512


@given(st.integers(0, 511), st.integers(0, 255))
def test_no_change_of_a_header_makes_more_than_a_refusal(place: int, byte: int):
    content = bytearray(tar_of({"folder/file": b"x" * 700}))
    content[place] = byte
    checksum = sum(content[:148]) + sum(content[156:512]) + 8 * 32
    content[148:156] = f"{checksum:06o}\0 ".encode()
    try:
        files = count_files(bytes(content))
    except (Invalid, TooLarge):
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        entries = tar.getmembers()
    assert files == sum(one.isfile() for one in entries)
    assert not any(".." in one.name.split("/") or one.name.startswith("/") for one in entries)


def test_a_job_runs_among_the_files_that_were_sent(yard: Yard):
    files = {"main.sh": b"cat part/words.txt; pwd\n", "part/words.txt": b"hello\n"}
    content = tar_of(files)
    sent = yard.send(content)
    assert (sent.digest, sent.size, sent.files) == (hashlib.sha256(content).hexdigest(), len(content), 2)
    job = yard.run("sh", "main.sh", source=sent.digest)
    assert yard.log(job.id) == "hello\n/job/source\n"


def test_the_same_is_kept_once(yard: Yard):
    content = tar_of({"a": b"the same"})
    first = yard.send(content)
    kept = rows(yard, "jobs_sources")
    assert yard.send(content) == first
    assert rows(yard, "jobs_sources") == kept


def rows(yard: Yard, table: str) -> int:
    with closing(sqlite3.connect(f"file:{yard.platform.home.database}?mode=ro", uri=True)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_it_lies_sealed_on_the_disk(yard: Yard):
    yard.send(tar_of({"a": b"nobody should read this here"}))
    kept = b"".join(path.read_bytes() for path in yard.platform.home.path.rglob("*") if path.is_file())
    assert b"nobody should read this here" not in kept


def test_what_one_project_sent_another_has_not(yard: Yard):
    yard.call(CREATE_PROJECT, CreateProject(name="other", zones=("home",)))
    sent = yard.send(tar_of({"a": b"of default"}))
    with pytest.raises(Invalid, match=f"The source {sent.digest[:12]} was not sent to this project; send it first"):
        yard.call(declared.SUBMIT_JOB, submission(project="other", source=sent.digest))
    assert yard.send(tar_of({"a": b"of default"}), "other") == sent
    assert yard.call(declared.PLAN_JOB, submission(project="other", source=sent.digest)).queue == "default"
    assert yard.call(declared.PLAN_JOB, submission(project=PROJECT, source=sent.digest)).queue == "default"
