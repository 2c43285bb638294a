"""A folder becomes the tar that a job runs with: only what it needs, and the same bytes for the same files."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.client import packing
from falaj.client.packing import packed, packed_alone
from falaj.jobs.sources import count_files


def names(folder: Path) -> list[str]:
    made = packed(folder)
    assert count_files(made.content) == made.files  # the platform takes it
    with tarfile.open(fileobj=io.BytesIO(made.content)) as tar:
        return tar.getnames()


def write(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_the_same_files_give_the_same_bytes_whenever_they_were_written(tmp_path: Path):
    for folder, order in ((tmp_path / "one", ("a", "b/c")), (tmp_path / "two", ("b/c", "a"))):
        write(folder, *order)
        os.utime(folder / "a", (len(folder.name), 10**9 if order[0] == "a" else 1))
    assert packed(tmp_path / "one") == packed(tmp_path / "two")
    (tmp_path / "two" / "a").chmod(0o755)
    assert packed(tmp_path / "one") != packed(tmp_path / "two")


def test_what_a_job_does_not_need_is_left_out(tmp_path: Path):
    write(tmp_path, "train.py", "data/part.csv", ".git/config", ".venv/lib.py", "env/pyvenv.cfg", "env/lib.py", "x.pyc")
    write(tmp_path, "__pycache__/x.py", "node_modules/x.js", "mlruns/0/meta.yaml", "models/big.bin", "notes.tmp", ".env")
    (tmp_path / ".falajignore").write_text("# what is large\nmodels/\n*.tmp\n.env\n\n")
    (tmp_path / "passwords").symlink_to("/etc/passwd")
    (tmp_path / "away").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path) == [".falajignore", "data/part.csv", "train.py"]


def test_within_a_checkout_what_git_ignores_is_left_out(tmp_path: Path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path, "train.py", "secret.key", "src/new.py", "build/out.bin")
    (tmp_path / ".gitignore").write_text("*.key\nbuild\n")
    assert names(tmp_path) == [".gitignore", "src/new.py", "train.py"]
    assert names(tmp_path / "src") == ["new.py"]


def test_what_travels_along_in_a_hidden_folder_is_all_that_is_in_it(tmp_path: Path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path, "train.py", ".falaj/start.py", ".falaj/json.py", ".github/work.yml")
    content = packed(tmp_path, {".falaj/start.py": b"ours", "cells.py": b""}).content
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert sorted(tar.getnames()) == [".falaj/start.py", ".github/work.yml", "cells.py", "train.py"]


def test_an_empty_folder_has_no_files(tmp_path: Path):
    assert packed(tmp_path).files == 0


def test_what_is_no_folder_is_refused(tmp_path: Path):
    with pytest.raises(Invalid, match="nowhere is no folder"):
        packed(tmp_path / "nowhere")


def test_a_folder_that_is_too_large_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing, "MOST_BYTES", 1 << 20)
    (tmp_path / "big").write_bytes(b"\0" * ((1 << 20) + 1))
    with pytest.raises(
        Invalid, match=r"has over 1 MiB; leave out what a job does not need \(\.falajignore\), or say --no-source"
    ):
        packed(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "closed")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(Invalid, match=r"closed cannot be read: Permission denied; leave it out \(\.falajignore\)"):
        packed(tmp_path)


def test_what_goes_along_takes_the_place_of_what_the_folder_has_there(tmp_path: Path):
    (tmp_path / "a.py").write_text("old")
    (tmp_path / "b.py").write_text("own")
    made = packed(tmp_path, {"a.py": b"new", ".falaj/start.py": b"start"})
    with tarfile.open(fileobj=io.BytesIO(made.content)) as tar:
        held = {entry.name: tar.extractfile(entry).read() for entry in tar}
    assert (made.files, made.size) == (3, 11)
    assert held == {"a.py": b"new", "b.py": b"own", ".falaj/start.py": b"start"}
    assert packed_alone({"a.py": b"new"}) == packed_alone({"a.py": b"new"})
