"""Images for tests: made of this host's busybox, kept in a storage of their own by a podman that knows no other."""

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

APPLETS = ("sh", "cat", "dd", "env", "id", "ls", "mkdir", "nc", "sleep", "tail", "true", "unshare", "wget", "yes")


class Podman:
    """A program in `folder` that is called as podman is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        real = shutil.which("podman")
        assert real is not None, "there is no podman: scripts/install_test_servers.sh installs it"
        # Where a host has control groups of both versions, crun does not run; runc runs everywhere.
        program = self.folder / "podman"
        program.write_text(f'#!/bin/sh\nexec {real} --root={folder}/kept --runroot={folder}/run --runtime=runc "$@"\n')
        program.chmod(0o755)

    def say(self, *words: str, given: bytes = b"") -> str:
        told = [str(self.folder / "podman"), *words]
        return subprocess.run(told, input=given, capture_output=True, check=True).stdout.decode().strip()

    def containers(self) -> list[str]:
        return self.say("ps", "--all", "--format={{.Names}}").split()

    def make(self, name: str, *changes: str, files: dict[str, bytes] | None = None) -> str:
        """Its id."""
        options = [f"--change={change}" for change in changes]
        return self.say("import", *options, "-", name, given=_tar(files or {})).splitlines()[-1].removeprefix("sha256:")


def _tar(files: dict[str, bytes]) -> bytes:
    busybox = shutil.which("busybox")
    assert busybox is not None, "there is no busybox: scripts/install_test_servers.sh installs it"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _going(folder: Path) -> list[str]:
    """Processes that have to do with a folder, once those that are about to end have."""
    for _ in range(50):
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [file.read_text().replace("\0", " ")] if str(folder) in file.read_text() else []
        if not found:
            break
        time.sleep(0.1)
    return found


def _remove_all(podman: Podman) -> None:
    """What was just killed may still be on its way out."""
    for _ in range(60):
        with contextlib.suppress(subprocess.CalledProcessError):
            podman.say("system", "reset", "--force")
            return
        time.sleep(0.5)
    podman.say("system", "reset", "--force")


@contextlib.contextmanager
def podman_of_its_own() -> Iterator[Podman]:
    folder = Path(tempfile.mkdtemp(prefix="podman-", dir="/var/tmp"))
    made = Podman(folder)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{made.folder}:{path}"
    try:
        yield made
    finally:
        os.environ["PATH"] = path
        _remove_all(made)
        assert _going(folder) == []
        shutil.rmtree(folder, ignore_errors=True)
