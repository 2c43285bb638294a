"""What may be given for a model's inputs, and how it becomes arrays.

Checked before anything is allocated: names, datatypes and shapes against the model's, lengths against shapes. Then the inputs
of a whole batch become one array each. Numbers in JSON may stand for any numeric datatype that holds them exactly
enough: integers in range (1.0 counts as 1), floats that are not too large; true and false are 1 and 0. Strings are no numbers.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from falaj.base.errors import Invalid
from falaj.runtimes.datatypes import BYTES, DTYPES, SIZES
from falaj.runtimes.engine import Array, TensorSpec
from falaj.serving.plane.asking import Given, check_texts

Data: TypeAlias = list[Any] | bytes | bytearray | memoryview
# Of one input of given shape: its rows, its elements, its bytes (-1 where elements differ in length), its shape without rows.
Measure: TypeAlias = tuple[int, int, int, tuple[int, ...]]
Nan: TypeAlias = Literal["allow", "refuse"]

# Little-endian always, also where that is the machine's own order: only then are floats checked for being too large.
_CODES: Final = {
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
}
_FLOATS: Final = frozenset({"FP16", "FP32", "FP64"})
_MOST_SHAPES: Final = 256
_PREFIX: Final = 4
_LISTS: Final = {list}
_NUMBER_WEIGHS: Final = 32  # in a list: the number, and the pointer to it
_TEXT_WEIGHS: Final = 64  # beside its characters


def weight_of(data: Data) -> int:
    """About how many bytes it takes while it waits. What is in a list is all numbers, or all texts, as the first one is."""
    if type(data) is not list:
        return len(data)
    if data and isinstance(data[0], str | bytes):
        return _TEXT_WEIGHS * len(data) + sum(len(one) for one in data if isinstance(one, str | bytes))
    return _NUMBER_WEIGHS * len(data)


class Input:
    """One input of a model."""

    def __init__(self, spec: TensorSpec, *, batches: bool, nan: Nan) -> None:
        self.name = spec.name
        self.datatype = spec.datatype
        self.spec = spec
        self.dtype = DTYPES[spec.datatype]
        self.known: dict[tuple[int, ...], Measure] = {}
        self.fixed = -1 not in spec.shape[1:] if batches else -1 not in spec.shape
        self._batches = batches
        self._code = _CODES.get(spec.datatype, "")
        self._packs: dict[int, Callable[..., bytes]] = {}
        self._refuses_nan = nan == "refuse" and spec.datatype in _FLOATS

    def measure(self, shape: Sequence[int]) -> Measure:
        """Raises `Invalid` for a shape that the model does not take."""
        wanted = self.spec.shape
        fits = len(shape) == len(wanted) and all(
            type(length) is int and length > 0 and limit in (-1, length) for length, limit in zip(shape, wanted, strict=True)
        )
        if not fits:
            raise Invalid(f"Input {self.name!r} was given with shape {_shown(shape)}; {_wanted(wanted)}.")
        count = 1
        for length in shape:
            count *= length
        size = count * SIZES[self.datatype] if self.datatype != BYTES else -1
        rows, tail = (shape[0], tuple(shape[1:])) if self._batches else (1, tuple(shape))
        measured = rows, count, size, tail
        if len(self.known) < _MOST_SHAPES and count < 2**31:
            self.known[tuple(shape)] = measured
        return measured

    def check(self, given: Given) -> Measure:
        """Raises `Invalid` unless datatype, shape and length are right."""
        if given.datatype != self.datatype:
            said = f"Input {self.name!r} was given as {given.datatype!r:.40}; the model takes {self.datatype}."
            raise Invalid(said)
        shape = given.shape
        try:
            measured = self.known.get(shape if type(shape) is tuple else tuple(shape))
        except TypeError:
            measured = None
        if measured is None:
            measured = self.measure(shape)
        data = given.data
        if type(data) is list:
            if len(data) != measured[1]:
                raise self._miscounted(shape, measured[1], len(data), "elements")
        elif measured[2] < 0:
            given.data = self._taken_apart(data, measured[1])  # type: ignore[arg-type]
        elif len(data) != measured[2]:
            raise self._miscounted(shape, measured[2], len(data), "bytes")
        return measured

    def stack(self, datas: Sequence[Data], shape: tuple[int, ...], memory: Array | None = None) -> Array:
        """The data of several requests as one array, or that of `memory` where they have been written to already. Raises
        `Invalid` where an element is not what the datatype holds."""
        if memory is not None:
            return self._from_bytes(memory, shape)
        kinds = set(map(type, datas))
        if kinds == _LISTS:
            if len(datas) == 1:
                flat = datas[0]
            else:
                flat = []
                for data in datas:
                    flat += data
            return self._from_list(flat, shape)  # type: ignore[arg-type]
        if list in kinds:
            return self._from_bytes(b"".join([self.raw(data) for data in datas]), shape)
        return self._from_bytes(datas[0] if len(datas) == 1 else b"".join(datas), shape)  # type: ignore[arg-type]

    def raw(self, data: Data) -> bytes | bytearray | memoryview:
        """The data of one request as it lies in an array. Raises `Invalid` as `stack` does."""
        return self._from_list(data, (len(data),)).tobytes() if type(data) is list else data  # type: ignore[return-value]

    def _from_list(self, flat: list[Any], shape: tuple[int, ...]) -> Array:
        if not self._code:
            return self._unusual(flat).reshape(shape)
        count = len(flat)
        pack = self._packs.get(count)
        if pack is None:
            pack = struct.Struct(f"<{count}{self._code}").pack
            if len(self._packs) < _MOST_SHAPES:
                self._packs[count] = pack
        try:
            packed = pack(*flat)
        except (struct.error, OverflowError):
            packed = pack(*[self._number(element) for element in flat])
        array: Array = np.ndarray(shape, self.dtype, packed)
        return self._checked(array) if self._refuses_nan else array

    def _from_bytes(self, data: bytes | bytearray | memoryview | Array, shape: tuple[int, ...]) -> Array:
        array: Array = np.ndarray(shape, self.dtype, data)
        if not array.flags.aligned:
            array = array.copy()
        if self.datatype == "BOOL" and array.view(np.uint8).max() > 1:
            raise Invalid(f"Input {self.name!r} is BOOL: each of its bytes is 0 or 1.")
        return self._checked(array) if self._refuses_nan else array

    def _checked(self, array: Array) -> Array:
        if not np.isfinite(array).all():
            raise Invalid(f"Input {self.name!r} has a NaN or an infinity in it; this endpoint refuses those.")
        return array

    def _unusual(self, flat: list[Any]) -> Array:
        """BYTES and BOOL, which `struct` does not write."""
        if self.datatype == BYTES:
            array: Array = np.empty(len(flat), dtype=object)
            array[:] = [self._text(element) for element in flat]
            return array
        if not all(type(element) in (bool, int) and element in (0, 1) for element in flat):
            raise Invalid(f"Input {self.name!r} is BOOL: each element is true or false.")
        return np.array(flat, np.bool_)

    def _number(self, element: Any) -> Any:
        """The element as `struct` takes it, or the reason why it cannot be taken."""
        kind = type(element)
        if kind is float and self.datatype not in _FLOATS and element.is_integer():
            element = int(element)
        elif kind not in (int, float, bool):
            raise Invalid(f"Input {self.name!r} is {self.datatype}; it was given {_element(element)}, which is no number.")
        try:
            struct.pack(f"<{self._code}", element)
        except (struct.error, OverflowError):
            raise Invalid(f"Input {self.name!r} is {self.datatype}, which cannot hold {_element(element)}.") from None
        return element

    def _text(self, element: Any) -> bytes:
        if type(element) is bytes:
            return element
        if type(element) is str:
            return element.encode()
        raise Invalid(f"Input {self.name!r} is BYTES; it was given {_element(element)}, which is no text.")

    def _taken_apart(self, data: bytes | bytearray | memoryview, count: int) -> list[bytes]:
        """Each element behind its length, as the protocol's binary form has them."""
        check_texts(min(count, len(data) // _PREFIX))
        parts: list[bytes] = []
        position, end, view = 0, len(data), memoryview(data)
        while position < end and len(parts) < count:
            start = position + _PREFIX
            position = start + int.from_bytes(view[start - _PREFIX : start], "little")
            if start > end or position > end:
                raise Invalid(f"Input {self.name!r} ends within its element {len(parts)}: lengths and bytes do not agree.")
            parts.append(bytes(view[start:position]))
        if len(parts) != count or position != end:
            left = f"with {end - position} bytes left over" if position != end else "and no more"
            raise Invalid(f"Input {self.name!r} has {count} elements by its shape; {len(parts)} were found, {left}.")
        return parts

    def _miscounted(self, shape: Sequence[int], wanted: int, found: int, what: str) -> Invalid:
        return Invalid(f"Input {self.name!r} of shape {_shown(shape)} has {wanted} {what}; {found} were given.")


class Inputs:
    """All inputs of a model, in its order."""

    def __init__(self, specs: Sequence[TensorSpec], *, batches: bool, nan: Nan) -> None:
        self.all = tuple(Input(spec, batches=batches, nan=nan) for spec in specs)
        self.only = self.all[0] if len(self.all) == 1 else None
        self.fixed = all(one.fixed for one in self.all)
        self.nan = nan
        self._batches = batches
        self._names = {one.name for one in self.all}

    def check(self, given: Sequence[Given]) -> tuple[tuple[Data, ...], int, tuple[tuple[int, ...], ...], int]:
        """The data in the model's order, the rows, the shapes without rows, and about how many bytes it is."""
        only = self.only
        if only is not None and len(given) == 1 and given[0].name == only.name:
            one = given[0]
            rows, _, size, tail = only.check(one)
            return (one.data,), rows, (tail,), size if size > 0 and type(one.data) is not list else weight_of(one.data)
        return self._check_all(given)

    def stack(
        self,
        datas: Sequence[tuple[Data, ...]],
        rows: int,
        tails: tuple[tuple[int, ...], ...],
        memories: Sequence[Array | None] = (),
    ) -> list[Array]:
        """The arrays of a batch, from the data of its requests, which all have the same `tails`; or from `memories`, in the
        order of the inputs, where they have been written to already."""
        lead = (rows,) if self._batches else ()
        if self.only is not None:
            return [self.only.stack([data for (data,) in datas], lead + tails[0], memories[0] if memories else None)]
        columns = zip(self.all, zip(*datas, strict=True), tails, memories or [None] * len(tails), strict=True)
        return [one.stack(data, lead + tail, memory) for one, data, tail, memory in columns]

    def _check_all(self, given: Sequence[Given]) -> tuple[tuple[Data, ...], int, tuple[tuple[int, ...], ...], int]:
        by_name = {one.name: one for one in given}
        if len(by_name) != len(given):
            twice = next(one.name for index, one in enumerate(given) if any(other.name == one.name for other in given[:index]))
            raise Invalid(f"The input {twice!r:.200} was given twice.")
        if by_name.keys() != self._names:
            raise self._misnamed(by_name)
        datas, tails, rows, weight = [], [], 0, 0
        for one in self.all:
            mine = by_name[one.name]
            count_of_rows, _, _, tail = one.check(mine)
            if rows and count_of_rows != rows:
                first = self.all[0].name
                raise Invalid(
                    f"Input {first!r} has {rows} rows, input {one.name!r} has {count_of_rows}; all inputs have as many."
                )
            rows, weight = count_of_rows, weight + weight_of(mine.data)
            datas.append(mine.data)
            tails.append(tail)
        return tuple(datas), rows, tuple(tails), weight

    def _misnamed(self, by_name: dict[str, Given]) -> Invalid:
        names = ", ".join(one.name for one in self.all)
        missing = [one.name for one in self.all if one.name not in by_name]
        if missing:
            return Invalid(f"The input {missing[0]!r} is missing; the model takes: {names}.")
        unknown = next(name for name in by_name if name not in self._names)
        return Invalid(f"There is no input {unknown!r:.200}; the model takes: {names}.")


def _shown(shape: Sequence[int]) -> str:
    text = str(list(shape[:10]))[:200]
    return text if len(shape) <= 10 else f"{text[:-1]}, ...]"


def _wanted(shape: Sequence[int]) -> str:
    if -1 in shape:
        return f"the model takes {list(shape)}, where -1 is any number from 1 up"
    return f"the model takes {list(shape)}"


def _element(element: Any) -> str:
    try:
        return repr(element)[:60]
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
