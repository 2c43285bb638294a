"""Files of checkpoints: what was written comes back from anywhere in it, and nothing else does."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import OutOfSpace
from falaj.training.checkpoints.errors import Damaged, KeyMissing
from falaj.training.checkpoints.keys import GivenKey, key_from_environment
from falaj.training.checkpoints.sealing import CHUNK, OpenedFile, SealedFile

KEY = bytes(range(32))
SIZES = st.one_of(st.integers(0, 200), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 77]))


def sealed(folder, portions, name="part", about="checkpoint/part"):
    with SealedFile(Path(folder) / name, KEY, about) as file:
        for portion in portions:
            file.write(portion)
    return file


@given(st.lists(SIZES, max_size=4), st.data())
def test_what_was_written_in_any_portions_is_read_from_anywhere(sizes, data):
    content = os.urandom(sum(sizes))
    portions = [content[sum(sizes[:at]) : sum(sizes[: at + 1])] for at in range(len(sizes))]
    with tempfile.TemporaryDirectory() as folder:
        written = sealed(folder, portions)
        with OpenedFile(Path(folder) / "part", KEY, "checkpoint/part") as file:
            assert file.size == written.size == len(content)
            assert file.digest() == written.digest
            begin = data.draw(st.integers(0, len(content)))
            length = data.draw(st.integers(0, len(content) - begin))
            assert file.read(begin, length) == content[begin : begin + length]


@given(st.data())
def test_no_changed_file_is_whole(data):
    with tempfile.TemporaryDirectory() as folder:
        written = sealed(folder, [b"weights" * 30])
        path = Path(folder) / "part"
        content = path.read_bytes()
        at = data.draw(st.integers(0, len(content) - 1))
        changes = [
            content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :],
            content[:at],
            content + content[at:],
        ]
        path.write_bytes(data.draw(st.sampled_from(changes)))
        with pytest.raises(Damaged), OpenedFile(path, KEY, "checkpoint/part") as file:
            assert file.digest() != written.digest


def test_chunks_cannot_change_places(tmp_path):
    sealed(tmp_path, [bytes(2 * CHUNK), b"end"])
    content = (tmp_path / "part").read_bytes()
    head, size = content[:48], CHUNK + 16
    first, second, last = content[48 : 48 + size], content[48 + size : 48 + 2 * size], content[48 + 2 * size :]
    for moved in (head + second + first + last, head + first + last, head + first + second):
        (tmp_path / "part").write_bytes(moved)
        with pytest.raises(Damaged), OpenedFile(tmp_path / "part", KEY, "checkpoint/part") as file:
            file.digest()


def test_a_file_opens_as_what_it_was_sealed_as_and_with_its_key(tmp_path):
    sealed(tmp_path, [b"weights"])
    for key, about in ((KEY, "other/part"), (bytes(32), "checkpoint/part")):
        with pytest.raises(Damaged, match="another key"), OpenedFile(tmp_path / "part", key, about) as file:
            file.read(0, 1)


def test_two_files_of_the_same_content_share_nothing(tmp_path):
    one, two = (sealed(tmp_path, [bytes(1000)], name=name) for name in ("one", "two"))
    assert one.digest != two.digest
    assert (tmp_path / "one").read_bytes()[48:64] != (tmp_path / "two").read_bytes()[48:64]


def test_more_than_there_is_cannot_be_read(tmp_path):
    sealed(tmp_path, [b"weights"])
    with OpenedFile(tmp_path / "part", KEY, "checkpoint/part") as file, pytest.raises(Damaged, match="7 bytes"):
        file.read(3, 5)


def test_a_link_is_not_followed(tmp_path):
    sealed(tmp_path, [b"weights"])
    (tmp_path / "link").symlink_to(tmp_path / "part")
    with pytest.raises(Damaged, match="cannot be opened"):
        OpenedFile(tmp_path / "link", KEY, "checkpoint/part")


def test_a_full_disk_is_told_in_our_own_words(tmp_path, monkeypatch):
    def full(descriptor, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OutOfSpace):
        sealed(tmp_path, [b"weights"])


@pytest.mark.parametrize("text", ["", "abc", "00" * 31, "zz" * 32])
def test_a_key_that_is_none_is_refused_with_what_to_do(text):
    with pytest.raises(KeyMissing, match="openssl rand -hex 32"):
        key_from_environment({"FALAJ_CHECKPOINT_KEY": text} if text else {})
    with pytest.raises(KeyMissing, match="it has to have 32"):
        GivenKey(text.encode())


def test_the_key_of_a_job_is_in_its_environment():
    assert key_from_environment({"FALAJ_CHECKPOINT_KEY": "0f" * 32}).key() == b"\x0f" * 32
