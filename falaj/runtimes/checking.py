"""Whether arrays are what a model takes. Done before every run: a fraction of a microsecond, and no library is asked
what it would do with something else."""

from collections.abc import Callable, Sequence

from falaj.runtimes.datatypes import DTYPES, datatype_of
from falaj.runtimes.engine import Array, TensorSpec
from falaj.runtimes.errors import Rejected


def make_check(inputs: Sequence[TensorSpec], *, batches: bool) -> Callable[[Sequence[Array]], None]:
    """A function that raises `Rejected` for arrays that do not fit `inputs`."""
    if len(inputs) == 1 and batches and -1 not in inputs[0].shape[1:]:
        return _single_check(inputs)
    wanted = [(DTYPES[spec.datatype], len(spec.shape), _fixed(spec.shape)) for spec in inputs]
    count = len(wanted)

    def check(arrays: Sequence[Array]) -> None:
        if len(arrays) != count:
            raise Rejected(_mismatch(inputs, arrays, batches))
        for array, (dtype, rank, fixed) in zip(arrays, wanted, strict=True):
            shape = array.shape
            if array.dtype != dtype or len(shape) != rank:
                raise Rejected(_mismatch(inputs, arrays, batches))
            for axis, length in fixed:
                if shape[axis] != length:
                    raise Rejected(_mismatch(inputs, arrays, batches))
        if batches:
            rows = arrays[0].shape[0]
            if not rows or any(array.shape[0] != rows for array in arrays):
                raise Rejected(_mismatch(inputs, arrays, batches))

    return check


def solid(array: Array) -> Array:
    """The same in one piece and at an address its elements may stand at: what libraries that are given pointers expect."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


def _single_check(inputs: Sequence[TensorSpec]) -> Callable[[Sequence[Array]], None]:
    """The same for the usual model: one input, rows of one shape."""
    dtype, row = DTYPES[inputs[0].datatype], inputs[0].shape[1:]

    def check(arrays: Sequence[Array]) -> None:
        if len(arrays) == 1:
            shape = arrays[0].shape
            if arrays[0].dtype == dtype and shape[1:] == row and shape and shape[0]:
                return
        raise Rejected(_mismatch(inputs, arrays, batches=True))

    return check


def _fixed(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(axis, length) for axis, length in enumerate(shape) if length >= 0]


def _mismatch(inputs: Sequence[TensorSpec], arrays: Sequence[Array], batches: bool) -> str:
    """What is wrong, in words; called only when something is."""
    if len(arrays) != len(inputs):
        return f"{len(arrays)} inputs were given, the model takes {len(inputs)}: {', '.join(spec.name for spec in inputs)}"
    for spec, array in zip(inputs, arrays, strict=True):
        if array.dtype != DTYPES[spec.datatype]:
            return f"input {spec.name} is {datatype_of(array.dtype) or array.dtype}, the model takes {spec.datatype}"
        shape = array.shape
        if len(shape) != len(spec.shape) or any(shape[axis] != length for axis, length in _fixed(spec.shape)):
            return f"input {spec.name} has shape {list(shape)}, the model takes {list(spec.shape)} (-1: any length)"
    rows = sorted({array.shape[0] for array in arrays}) if batches else []
    if rows == [0]:
        return "no row was given, the model takes one or more"
    return f"the inputs have different numbers of rows: {rows}"
