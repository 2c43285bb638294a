"""What is loaded from: a table whose rows lie in groups, each of which is read as a whole."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class ArrayGroups(Protocol):
    """Thread-safe: several groups are read at a time. It never changes: the same group gives the same rows, always.

    `dtypes` says of every column what its arrays are: a number, a truth value, or a vector of numbers (a dtype with a shape);
    `object` for everything else. A null is NaN where the numbers are floats. Integers and truth values that have nulls come as
    floats.
    """

    @property
    def rows(self) -> Sequence[int]:
        """Of each group, in their order."""

    @property
    def dtypes(self) -> Mapping[str, "np.dtype[Any]"]: ...

    def read(self, group: int, columns: Sequence[str]) -> Mapping[str, Array]: ...
