"""How a version is divided among tasks that read it beside each other: small parts together, a large one in shares."""

from collections.abc import Sequence
from typing import Final

from falaj.base.values import value
from falaj.datasets.operations.reading import GrantedPart

SIZE: Final = 32 << 20  # sealed bytes of a task, which are several times as many in memory
GROUP: Final = 131_072  # rows of a row group; there are never fewer groups than these make


@value
class Share:
    """Of these parts the row groups that are the share `number` of `of`."""

    parts: Sequence[GrantedPart]
    number: int = 0
    of: int = 1


def shares(parts: Sequence[GrantedPart], size: int = SIZE) -> list[Share]:
    """In the order of the rows; no row is in two of them."""
    found: list[Share] = []
    together: list[GrantedPart] = []
    length = 0
    for part in parts:
        if together and length + part.size > size:
            found.append(Share(parts=tuple(together)))
            together, length = [], 0
        of = min(-(-part.size // size), -(-part.rows // GROUP))
        if of > 1:
            found += [Share(parts=(part,), number=number, of=of) for number in range(of)]
        else:
            together.append(part)
            length += part.size
    return [*found, Share(parts=tuple(together))] if together else found
