"""The program inside a data worker's walls. It loads the libraries once; each order is done by a fork of it that ends with the
order, so that no key and no row of one is there for the next, whatever a hostile file made of the process that read it.

An order comes as a socket of its own through the first one, which the fork closes: it can neither read other orders nor look
into this process, and what it leaves running is killed.
"""

import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
from typing import Final

STATUS: Final = struct.Struct("<i")
_PR_SET_DUMPABLE: Final = 4
_MOST_FILES: Final = 100_000
_PLACES: Final = ("/tmp", "/dev/shm")  # nosec B108 - inside the walls


def main() -> None:
    # Arrow's usual allocator reserves more addresses than a small worker has.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    orders = socket.socket(fileno=int(sys.argv[1]))
    _load()
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    orders.sendall(STATUS.pack(0))
    while True:
        data, files, _, _ = socket.recv_fds(orders, 1, 1)
        if not data or not files:
            return
        status = _in_a_fork(orders, files[0])
        orders.sendall(STATUS.pack(status))


def _load() -> None:
    from falaj.tables import doing  # noqa: F401 - what takes long, before there are orders


def _in_a_fork(orders: socket.socket, file: int) -> int:
    """How the fork ended: its exit code, or the signal below zero."""
    child = os.fork()
    if not child:
        orders.close()
        _serve(file)
    os.close(file)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)
    _clear()
    return os.waitstatus_to_exitcode(status)


def _serve(file: int) -> None:
    from falaj.base.errors import TooLarge
    from falaj.tables import doing, messages

    code = 1
    try:
        with socket.socket(fileno=file) as asked:
            told, files = messages.receive(asked, most_files=_MOST_FILES, longest=messages.LONGEST_ORDER)
            try:
                messages.send(asked, doing.done(told, files), longest=messages.LONGEST_ANSWER)
            except TooLarge as error:
                messages.send(asked, {"error": "TooLarge", "says": str(error)})
        code = 0
    finally:
        os._exit(code)


def _clear() -> None:
    """What an order wrote is not there for the next. Libraries may lie below, as mounts of their own: those are left alone."""
    for place in _PLACES:
        device, left = os.lstat(place).st_dev, []
        for folder, folders, files in os.walk(place):
            below = [f"{folder}/{name}" for name in folders]
            folders[:] = [name for name, path in zip(folders, below, strict=True) if os.lstat(path).st_dev == device]
            left += below
            for name in files:
                with contextlib.suppress(OSError):
                    os.unlink(f"{folder}/{name}")  # noqa: PTH108 - as the walk is
        for path in reversed(left):
            with contextlib.suppress(OSError):
                os.unlink(path) if os.path.islink(path) else os.rmdir(path)  # noqa: PTH106, PTH108, PTH114


if __name__ == "__main__":
    main()
