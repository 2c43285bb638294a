"""One data worker: `falaj.tables.worker` inside walls, that does one order at a time. `pools` keeps some of them."""

import contextlib
import fcntl
import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import falaj.base
import falaj.tables
from falaj.base.errors import Corrupt, Misconfigured
from falaj.datasets.working.errors import WorkerFailed
from falaj.runtimes.sandbox import Sandbox, Walled
from falaj.runtimes.walls import Bounds, Program
from falaj.tables import messages
from falaj.tables.worker import STATUS

_STARTS_WITHIN: Final = 60.0
_ENDS_WITHIN: Final = 10.0
_PIECE: Final = 1 << 20
_NOT_THERE: Final = "ModuleNotFoundError"
# What of ours the program inside consists of.
OURS: Final = {package.__name__: Path(str(package.__file__)).parent for package in (falaj.base, falaj.tables)}


class DataWorker:
    """For one thread at a time. Once something failed `is_well` is False: it answers nothing any more and has to be closed."""

    def __init__(self, sandbox: Sandbox, bounds: Bounds) -> None:
        """Raises `Misconfigured` where there are no walls or no data libraries, `WorkerFailed` where it does not start."""
        self._orders, theirs = socket.socketpair()
        self._seconds = 0.0
        self.is_well = True
        program = Program(module="falaj.tables.worker", packages=OURS, files=(theirs.fileno(),))
        try:
            self._walled: Walled = sandbox.start(program, bounds)
        except BaseException:
            self._orders.close()
            raise
        finally:
            theirs.close()
        try:
            self._ended_with(_STARTS_WITHIN)
        except WorkerFailed as error:
            self.close()
            if _NOT_THERE in str(error):
                raise Misconfigured(
                    "Data is read and written by libraries that the Python of data workers lacks: pip install falaj"
                ) from None
            raise

    @property
    def is_alive(self) -> bool:
        return self._walled.is_alive

    def do(
        self, told: Mapping[str, Any], files: Sequence[int], *, seconds: float, chunks: Iterable[bytes] | None = None
    ) -> dict[str, Any]:
        """What it answers to an order, unchecked. `chunks` are what it reads through a pipe, whose end goes before the other
        descriptors; they are taken in this thread. Raises `WorkerFailed`, and whatever the chunks raise."""
        timer = threading.Timer(seconds, self._walled.end, [f"It took more than {seconds:g} seconds"])
        timer.daemon = True
        timer.start()
        try:
            with self._handed_over() as order:
                if chunks is None:
                    messages.send(order, told, files)
                else:
                    _send_and_feed(order, told, files, chunks)
                answer, _ = messages.receive(order)
            self._ended_with(_ENDS_WITHIN)
            return answer
        except messages.Ended:
            raise self._failed() from None
        except Corrupt as error:
            self.is_well = False
            raise WorkerFailed(f"The data worker said nonsense: {error}.") from None
        except BaseException:
            self.is_well = False
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        self.is_well = False
        self._orders.close()
        self._walled.close()

    @contextlib.contextmanager
    def _handed_over(self) -> Iterator[socket.socket]:
        """A socket for one order, whose other end the worker has."""
        ours, theirs = socket.socketpair()
        with ours:
            try:
                socket.send_fds(self._orders, [b"\0"], [theirs.fileno()])
            except OSError:
                raise messages.Ended from None
            finally:
                theirs.close()
            yield ours

    def _failed(self) -> WorkerFailed:
        """What did the order ended without an answer, and the worker tells how. It is not used again: what ended like that may
        have been taken over by what it read."""
        self.is_well = False
        try:
            code = self._ended_with(_ENDS_WITHIN)
        except WorkerFailed as error:
            return error
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        return WorkerFailed(
            f"The data worker {how} while it did this, which is not done. What it read may be hostile or damaged."
        )

    def _ended_with(self, within: float) -> int:
        """How the fork that did an order ended. Raises `WorkerFailed` where the worker itself is gone."""
        self._orders.settimeout(within)
        try:
            told = self._orders.recv(STATUS.size, socket.MSG_WAITALL)
            if len(told) == STATUS.size:
                return int(STATUS.unpack(told)[0])
        except TimeoutError:
            self._walled.end(f"It did not answer within {within:g} seconds")
        except OSError:
            pass
        self.is_well = False
        why = self._walled.outcome(patience=2.0) or "It ended."
        raise WorkerFailed(f"The data worker failed. {why} What it was asked is not done.")


def _send_and_feed(order: socket.socket, told: Mapping[str, Any], files: Sequence[int], chunks: Iterable[bytes]) -> None:
    """The answer may come before everything was read: what is wrong with a source is often wrong at its start."""
    reading, writing = os.pipe()
    try:
        try:
            with contextlib.suppress(OSError):
                os.set_blocking(writing, False)
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIECE)  # both sides take turns less often
            messages.send(order, told, [reading, *files])
        finally:
            os.close(reading)
        for chunk in chunks:
            if not _written(writing, chunk, order):
                return
    finally:
        os.close(writing)


def _written(pipe: int, chunk: bytes, order: socket.socket) -> bool:
    """False once nobody reads any more."""
    view, poll = memoryview(chunk), select.poll()
    poll.register(pipe, select.POLLOUT)
    poll.register(order, select.POLLIN)
    while view:
        ready = dict(poll.poll(1000))
        if order.fileno() in ready:
            return False
        try:
            view = view[os.write(pipe, view[:_PIECE]) :] if pipe in ready else view
        except BlockingIOError:
            time.sleep(0.001)
        except BrokenPipeError:
            return False
    return True
