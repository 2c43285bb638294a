"""Answer by a model that only Python can load: its files come in first, then requests, one after the other.

`frames` says how. What the model takes and gives is told once it is loaded and has answered its sample rows.
"""

import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from falaj.runtimes.datatypes import BYTES, datatype_of
from falaj.runtimes.sandboxed import samples
from falaj.runtimes.sandboxed.frames import LENGTHS, Array, arrays_of, frame
from falaj.runtimes.sandboxed.loading import load
from falaj.runtimes.sandboxed.originals import Function, OfTensors, Original, Unusable, arrived

MOST_INPUTS = 1000
FEW = 4  # rows that are asked together and one by one, to see whether they are kept apart


class Part:
    """The next so many bytes of a stream, and no more."""

    def __init__(self, stream: BinaryIO, length: int) -> None:
        self._stream, self._left = stream, length

    def read(self, size: int) -> bytes:
        found = self._stream.read(min(size, self._left))
        self._left -= len(found)
        return found


class Served:
    """The model with what it takes: one array for each of `inputs`."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.original: Original = load(said)
        takes = self.original.takes if isinstance(self.original, OfTensors) else said["tensors"]
        self.said = said if said["columns"] else said | {"tensors": takes}
        self.columns: list[str] = []
        self.inputs = self._inputs()
        self.outputs: list[list[Any]] = []
        self.names: list[str] = []

    def _inputs(self) -> list[list[Any]]:
        columns, tensors = self.said["columns"], self.said["tensors"]
        if max(len(columns), len(tensors)) > MOST_INPUTS:
            raise Unusable(f"its signature has more than {MOST_INPUTS} inputs")
        if isinstance(self.original, OfTensors) and columns:
            return [["input", "FP32", [-1, len(columns)]]]
        if columns:
            kinds = {"string": BYTES}
            return [[column["name"] or "input", kinds.get(column["type"], "FP64"), [-1, 1]] for column in columns]
        if tensors:
            return [[one["name"] or "input", _datatype(one["dtype"]), [-1, *one["shape"][1:]]] for one in tensors]
        self.columns = getattr(self.original, "columns", [])
        return [["input", "FP64", [-1, self._rows().shape[1]]]]

    def _rows(self) -> Any:
        return samples.table(self.said, getattr(self.original, "width", 0), self.original.model)

    def sample(self) -> list[Array]:
        """A few rows in the form that requests have."""
        columns, tensors = self.said["columns"], self.said["tensors"]
        if tensors or (columns and isinstance(self.original, OfTensors)):
            return [_plain(array[:FEW]) for array in samples.tensors(self.said)]
        rows = self._rows()
        if not columns:
            return [rows[:FEW]]
        return [_plain(rows[column["name"]].to_numpy()[:FEW, None], column["type"]) for column in columns]

    def asked(self, arrays: Sequence[Array]) -> Any:
        """What the model itself takes."""
        columns, tensors = self.said["columns"], self.said["tensors"]
        if isinstance(self.original, OfTensors):
            return arrays
        if columns:
            values = [samples.typed(column["type"], _words(array[:, 0])) for column, array in zip(columns, arrays, strict=True)]
            if len(columns) == 1 and not columns[0]["name"]:
                return values[0].tolist()
            import pandas

            return pandas.DataFrame({column["name"]: one for column, one in zip(columns, values, strict=True)})
        if tensors and isinstance(self.original, Function) and tensors[0]["name"]:
            return {tensor["name"]: _words(array) for tensor, array in zip(tensors, arrays, strict=True)}
        return _words(arrays[0])

    def answers(self, arrays: Sequence[Array]) -> list[Array]:
        given = self.original.answers(self.asked(arrays))
        self.names = list(given)
        return [_plain(np.asarray(one)) for one in given.values()]

    def settle(self) -> bool:
        """Find out what it gives, by asking; whether each row is answered by itself."""
        sample = self.sample()
        together = self.answers(sample)
        for name, array in zip(self.names, together, strict=True):
            shape = [-1, *array.shape[1:]] if array.ndim and len(array) == len(sample[0]) else [-1] * array.ndim
            self.outputs.append([name, datatype_of(array.dtype), shape])
        alone = [self.answers([array[row : row + 1] for array in sample]) for row in range(len(sample[0]))]
        return all(
            array.ndim and len(array) == len(alone) and _same(array, [one[place] for one in alone])
            for place, array in enumerate(together)
        )


def _same(together: Array, alone: list[Array]) -> bool:
    if any(one.dtype != together.dtype or one.shape != (1, *together.shape[1:]) for one in alone):
        return False
    joined = np.concatenate(alone)
    if together.dtype.kind != "f":
        return bool(np.array_equal(together, joined))
    return bool(np.allclose(together.astype(np.float64), joined.astype(np.float64), 1e-3, 1e-4, equal_nan=True))


def _datatype(dtype: str) -> str:
    if np.dtype(dtype).kind in "OUS":
        return BYTES
    found = datatype_of(np.dtype(dtype))
    if found is None:
        raise Unusable(f"it takes {dtype}, which the protocol has no word for")
    return found


def _plain(array: Any, column: str = "") -> Array:
    """As it travels: texts as bytes, a table's numbers as double."""
    if column:
        array = array if column == "string" else array.astype(np.float64)
    if array.dtype.kind in "OUST":
        made = np.empty(array.shape, dtype=object)
        made.reshape(-1)[:] = [one if type(one) is bytes else str(one).encode() for one in array.reshape(-1).tolist()]
        return made
    if datatype_of(array.dtype) is None:
        raise Unusable(f"it gives {array.dtype}, which the protocol has no word for")
    return np.ascontiguousarray(array).reshape(array.shape)


def _words(array: Array) -> Any:
    if array.dtype != object:
        return array
    made = np.empty(array.shape, dtype=object)
    made.reshape(-1)[:] = [one.decode() for one in array.reshape(-1).tolist()]
    return made


def say(answer: BinaryIO, parts: list[bytes]) -> None:
    answer.write(b"".join(parts))
    answer.flush()


def next_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    start = stream.read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    head, following = LENGTHS.unpack(start)
    return json.loads(stream.read(head)), stream.read(following)


def main() -> None:
    # What the model prints must not get among the answers.
    answer, stream = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    try:
        _, following = LENGTHS.unpack(stream.read(LENGTHS.size))
        part = Part(stream, following)
        served = Served(arrived(part))
        while part.read(1 << 20):
            pass  # padding
        batches = served.settle()
    except ModuleNotFoundError as error:
        say(answer, frame({"error": f"the library {error.name!r} is not installed for the isolated runtime"}))
        return
    except Exception as error:  # noqa: BLE001 - whatever a user's model raises is the answer
        kind = "" if isinstance(error, Unusable) else f"{type(error).__name__}: "
        say(answer, frame({"error": f"{kind}{str(error)[:1000]}"}))
        return
    say(
        answer,
        frame({"inputs": served.inputs, "outputs": served.outputs, "batches": batches, "columns": served.columns}),
    )
    while (asked := next_frame(stream)) is not None:
        try:
            parts = frame({}, served.answers(arrays_of(*asked)))
        except (ValueError, TypeError) as error:
            parts = frame({"rejected": str(error)[:500]})
        except Exception as error:  # noqa: BLE001 - whatever a user's model raises is the answer
            parts = frame({"failed": f"{type(error).__name__}: {str(error)[:500]}"})
        say(answer, parts)


if __name__ == "__main__":
    main()
