"""Models that only their own Python code can load: each in a process of its own, inside `walls`, which arrays are sent to.

It has no network, no secrets and bounded memory. One that hangs or dies fails what it was asked, and is started again.
"""

import json
import os
import select
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.runtimes.checking import make_check
from falaj.runtimes.datatypes import DTYPES
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, EngineMissing, NotLoadable, Rejected
from falaj.runtimes.sandbox import END_OF_FILES, Sandbox, Walled, packed
from falaj.runtimes.sandboxed.frames import LENGTHS, LONGEST_HEADER, arrays_of, frame
from falaj.runtimes.walls import Bounds

LOADS_WITHIN: Final = 180.0
ANSWERS_WITHIN: Final = 30.0
MEMORY_BYTES: Final = 8 << 30
LARGEST_ANSWER: Final = 1 << 30
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_PIECE: Final = 1 << 16


def load(files: ModelFiles, placement: Placement) -> "IsolatedEngine":
    if not placement.python:
        raise EngineMissing(
            "it needs its own Python code, which is not run on this plane: set [serving] python = true there, or deploy a "
            "version in a format that needs no code (ONNX, LightGBM's text, XGBoost's JSON)"
        )
    if placement.device != "cpu":
        raise DeviceMissing("models by their own Python code run on the CPU only")
    return IsolatedEngine(Sandbox(placement.python), files, threads=placement.threads or 1)


@value
class Told:
    """What a model says of itself once it is loaded."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batches: bool
    columns: tuple[str, ...]


class Broken(Exception):
    """The process ended, was ended, or said nonsense: it answers nothing any more."""


class IsolatedEngine:
    """Also `Stoppable`, and `Columned` where the model has no signature and knows its columns.

    After a failure that ended the process, the next one is started beside the calls, at once the first time and after a
    pause that grows where none in between answered anything; a call waits for it as long as for an answer.
    """

    device = "cpu"

    def __init__(
        self,
        sandbox: Sandbox,
        files: ModelFiles,
        *,
        threads: int = 1,
        answers_within: float = ANSWERS_WITHIN,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._sandbox, self._contents, self._within = sandbox, files.contents, answers_within
        self._bounds = Bounds(memory_bytes=memory_bytes, threads=threads)
        self._closed = threading.Event()
        self._pause = 0.0
        self._problem = ""
        self._starting: threading.Thread | None = None
        self._lock = threading.Lock()
        self._process: _Process | None
        try:
            self._process = _Process(sandbox, files.contents, self._bounds)
        except Broken as error:
            raise NotLoadable(f"it cannot be loaded by its own Python code: {error}") from None
        self._told = self._process.told
        self.inputs, self.outputs, self.batches = self._told.inputs, self._told.outputs, self._told.batches
        self.columns = self._told.columns if not files.columns else ()
        self._check = make_check(self.inputs, batches=self.batches)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        process = self._ready()
        try:
            header, body = process.ask(frame({}, arrays), self._within)
            if "rejected" in header:
                raise Rejected(f"the model cannot take these inputs: {str(header['rejected'])[:500]}")
            if "failed" in header:
                raise EngineFailed(f"the model failed: {str(header['failed'])[:500]}")
            answers = self._checked(header, body)
        except Broken as error:
            self._replace(process)
            raise EngineFailed(f"the model failed: {error}") from None
        self._pause = 0.0
        return answers

    def stop(self) -> None:
        process = self._process
        if process is not None:
            process.end("It was stopped: it took too long")

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            process, self._process = self._process, None
        if process is not None:
            process.close()

    def _ready(self) -> "_Process":
        process = self._process
        if process is None and not self._closed.is_set():
            self._begin()
            if self._starting is not None:
                self._starting.join(self._within)
            process = self._process
        if process is not None:
            return process
        if self._closed.is_set():
            raise EngineFailed("the engine is closed")
        raise EngineFailed(f"the model's process ended and is not there again: {self._problem or 'it is being started'}")

    def _replace(self, process: "_Process") -> None:
        with self._lock:
            if self._process is process:
                self._process = None
        process.close()
        self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._closed.is_set() or self._process is not None or (self._starting is not None and self._starting.is_alive()):
                return
            self._starting = threading.Thread(target=self._start, args=(self._pause,), name="starting a model", daemon=True)
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            self._starting.start()

    def _start(self, pause: float) -> None:
        if self._closed.wait(pause):
            return
        try:
            process = _Process(self._sandbox, self._contents, self._bounds)
            if process.told != self._told:
                process.close()
                raise Broken("it takes or gives other tensors than before")
        except (Broken, FalajError, OSError) as error:
            self._problem = str(error)
            return
        with self._lock:
            if not self._closed.is_set():
                self._process, self._problem = process, ""
                return
        process.close()

    def _checked(self, header: Mapping[str, Any], body: bytes) -> list[Array]:
        """Nothing that comes out of the walls is believed."""
        try:
            answers: list[Array] = arrays_of(dict(header), body)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise Broken(f"it answered something that cannot be read: {error}") from None
        if len(answers) != len(self.outputs):
            raise Broken(f"it gave {len(answers)} outputs where {len(self.outputs)} were expected")
        for spec, answer in zip(self.outputs, answers, strict=True):
            fits = answer.dtype == DTYPES[spec.datatype] and answer.ndim == len(spec.shape)
            if not fits or any(wanted not in (-1, found) for wanted, found in zip(spec.shape, answer.shape, strict=True)):
                raise EngineFailed(f"the model gave {spec.name} as {answer.dtype} {list(answer.shape)}, unlike at first")
        return answers


class _Process:
    """One process with the model loaded; `told` is what the model said of itself. Raises `Broken`, from anywhere."""

    def __init__(self, sandbox: Sandbox, contents: Mapping[str, bytes], bounds: Bounds) -> None:
        self._walled: Walled = sandbox.start("serve", bounds)
        self._in, self._out = self._walled.given.fileno(), self._walled.told.fileno()
        for pipe in (self._in, self._out):
            os.set_blocking(pipe, False)
        try:
            header, _ = self.ask(_files(contents), LOADS_WITHIN)
            if "error" in header:
                raise Broken(str(header["error"])[:1500])
            self.told = _told(header)
        except BaseException:
            self.close()
            raise

    def ask(self, parts: Iterable[bytes], within: float) -> tuple[dict[str, Any], bytes]:
        """Write, then read one frame; all of it in time, or the process is ended."""
        deadline = time.monotonic() + within
        try:
            for part in parts:
                self._write(part, deadline)
            head, following = LENGTHS.unpack(self._read(LENGTHS.size, deadline))
            if head > LONGEST_HEADER or following > LARGEST_ANSWER:
                raise Broken(f"its answer has more than {LARGEST_ANSWER >> 20} MiB")
            header = json.loads(self._read(head, deadline))
            if not isinstance(header, dict):
                raise Broken("it answered something that cannot be read")
            return header, self._read(following, deadline)
        except TimeoutError:
            self._walled.end(f"It took more than {within:g} seconds")
        except (OSError, EOFError):
            pass
        except (ValueError, RecursionError) as error:
            raise Broken(f"it answered something that cannot be read: {error}") from None
        raise Broken(self._walled.outcome(patience=2.0) or "its process ended")

    def end(self, why: str) -> None:
        self._walled.end(why)

    def close(self) -> None:
        self._walled.close()

    def _write(self, part: bytes, deadline: float) -> None:
        view = memoryview(part)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                _wait(self._in, select.POLLOUT, deadline)

    def _read(self, length: int, deadline: float) -> bytes:
        """In pieces as they come: what is announced is not believed before it is there."""
        pieces, left = [], length
        while left:
            try:
                piece = os.read(self._out, min(left, max(_PIECE, length // 16)))
            except BlockingIOError:
                _wait(self._out, select.POLLIN, deadline)
                continue
            if not piece:
                raise EOFError
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _wait(pipe: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(pipe, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError


def _files(contents: Mapping[str, bytes]) -> Iterator[bytes]:
    entries = [list(packed(name, len(content), (content,))) for name, content in contents.items()]
    yield LENGTHS.pack(0, sum(len(part) for entry in entries for part in entry) + len(END_OF_FILES))
    for entry in entries:
        yield from entry
    yield END_OF_FILES


def _told(header: Mapping[str, Any]) -> Told:
    try:
        columns = tuple(str(name)[:1000] for name in header["columns"])
        return Told(
            inputs=tuple(_spec(*one) for one in header["inputs"]),
            outputs=tuple(_spec(*one) for one in header["outputs"]),
            batches=header["batches"] is True,
            columns=columns,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Broken(f"it says of itself what cannot be read: {error!r}"[:500]) from None


def _spec(name: Any, datatype: Any, shape: Any) -> TensorSpec:
    if type(name) is not str or datatype not in DTYPES or any(type(axis) is not int or axis < -1 for axis in shape):
        raise ValueError("a tensor that nobody can have")
    return TensorSpec(name=name[:1000], datatype=datatype, shape=tuple(shape))
