"""What a job declared to write, sent to its run by its own token, inside its walls: nothing outside opens a file of a job.

`inside` loads it from the file beside its own, in a process that is for this alone. It has nothing but Python's own library.
"""

import errno
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from typing import Any

PREFIX = "outputs"  # of the names that its files have with the run
PATIENCE = 600.0  # seconds, with a platform that does not answer: jobs outlive it, and wait for it to come back
LONGEST_PAUSE = 15.0
SECONDS = 600.0  # for one step of one file
AGAIN = (0, 429, 502, 503, 504, 507)  # it did not answer, or says that it may later
UNSENT = "could not be sent"  # the platform was away, or failed at it; every other reason lies in what was written
MOST_FILES = 10_000
PIECE = 1 << 18
LONGEST_ANSWER = 1 << 16
PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # what only waits for a writer is seen to be no file


class Unkept(Exception):
    """Why an output is not kept, in words for whoever reads how the try ended."""


def keep(order: dict[str, Any], relay: str) -> str:
    """Everything that was declared; why it could not be, or nothing."""
    files = size = 0
    if not relay or not order["variables"].get("FALAJ_RUN"):
        return "its outputs have no run that could keep them"
    try:
        for name in order["outputs"]:
            for place, descriptor in files_of(order["output"], name):
                files += 1
                if files > MOST_FILES:
                    raise Unkept(f"its outputs are more than {MOST_FILES} files: pack them into one")
                try:
                    size += sent(order, relay, place, descriptor)
                finally:
                    os.close(descriptor)
    except Unkept as problem:
        return str(problem)
    print(f"falaj: kept {files} {'file' if files == 1 else 'files'} ({size:,} bytes) of its outputs", flush=True)
    return ""


# Which files


def files_of(folder: str, name: str) -> Iterator[tuple[str, int]]:
    """Of one output: the names of its files below the folder, each with a descriptor that is the caller's. A link counts as the
    file that it names, as long as that lies below the folder, too."""
    found, waiting = 0, [(name, False)]
    while waiting:
        place, is_link = waiting.pop()
        descriptor = opened(folder, place, was_declared=place == name)
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            found += 1
            yield place, descriptor
            continue
        try:
            if not stat.S_ISDIR(kind) or is_link:
                raise Unkept(f"its output {place!r} is {'a link to a folder' if is_link else 'neither file nor folder'}")
            with os.scandir(descriptor) as entries:
                waiting += sorted((f"{place}/{entry.name}", entry.is_symlink()) for entry in entries)[::-1]
        finally:
            os.close(descriptor)
    if not found:
        raise Unkept(f"its output {name!r} is a folder without a file")


def opened(root: str, name: str, *, was_declared: bool) -> int:
    """What a name leads to, below the folder and nowhere else: where it leads is found out first, and then gone step by step,
    following nothing, whatever somebody changes meanwhile. The folder is no link either: it is the job's to replace."""
    led_to = os.path.realpath(f"{root}/{name}")
    if not f"{led_to}/".startswith(f"{root}/"):
        raise Unkept(f"its output {name!r} is a link that leads out of the folder for outputs")
    *above, last = (led_to[len(root) + 1 :] or ".").split("/")
    at: int | None = None
    try:
        for part in (root, *above):
            before, at = at, os.open(part, FOLDER, dir_fd=at)
            if before is not None:
                os.close(before)
        return os.open(last, FILE, dir_fd=at)
    except OSError as error:
        if was_declared and error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise Unkept(f"its output {name!r} was not written") from None
        raise Unkept(f"its output {name!r} cannot be read: {error.strerror}") from None
    finally:
        if at is not None:
            os.close(at)


# Sending


def sent(order: dict[str, Any], relay: str, name: str, descriptor: int) -> int:
    """Again and again while the platform is away; how many bytes."""
    size, pause, until = os.fstat(descriptor).st_size, 0.5, time.monotonic() + PATIENCE
    while True:
        status, words = put(order, relay, name, descriptor, size)
        if status == 200:
            return size
        if status not in AGAIN and status < 500:
            raise Unkept(f"its output {name!r} cannot be kept: {words}")
        if status not in AGAIN or time.monotonic() > until:
            raise Unkept(f"its output {name!r} {UNSENT}: {words}")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def put(order: dict[str, Any], relay: str, name: str, descriptor: int, size: int) -> tuple[int, str]:
    """What the platform answers, with 0 where it does not: a status, and words. Its relay speaks plain HTTP."""
    given, asked = order["variables"], f"name={escaped(f'{PREFIX}/{name}')}&zone={escaped(order['zone'])}"
    lines = [
        f"PUT /v1/projects/{given['FALAJ_PROJECT']}/artifacts/{given['FALAJ_RUN']}/file?{asked} HTTP/1.1",
        *("Host: platform", f"Authorization: Bearer {given['FALAJ_TOKEN']}", "Content-Type: application/octet-stream"),
        *(f"Content-Length: {size}", "Connection: close", "", ""),
    ]
    host, _, port = relay.removeprefix("http://").rpartition(":")
    answer = b""
    try:
        with socket.create_connection((host, int(port)), timeout=SECONDS) as made:
            try:
                made.sendall("\r\n".join(lines).encode())
                pour(descriptor, size, made, name)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have been refused before all of it was there
            while len(answer) < LONGEST_ANSWER and (part := made.recv(PIECE)):
                answer += part
    except OSError as error:
        if not answer:
            return 0, f"the platform does not answer: {error}"
    return understood(answer)


def pour(descriptor: int, size: int, made: socket.socket, name: str) -> None:
    at = 0
    while at < size:
        piece = os.pread(descriptor, min(PIECE, size - at), at)
        if not piece:
            raise Unkept(f"its output {name!r} became shorter while it was read")
        made.sendall(piece)
        at += len(piece)


def understood(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[1].isdigit():
        return 0, "the platform does not answer"
    try:
        told = str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        told = body.decode(errors="replace").strip() or f"the platform answers {words[1].decode()}"
    return int(words[1]), told[:1000]


def escaped(text: str) -> str:
    return "".join(chr(byte) if byte in PLAIN else f"%{byte:02X}" for byte in text.encode(errors="surrogateescape"))
