"""The Merkle tree of RFC 9162, section 2.1, over stored hashes of complete subtrees; pure, so that auditors can run it too.

Node (level, position) is the hash over leaves [position * 2^level, (position + 1) * 2^level); it never changes once it exists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

Node: TypeAlias = tuple[int, int]
Span: TypeAlias = tuple[int, int]
ReadNodes: TypeAlias = Callable[[Sequence[Node]], Mapping[Node, bytes]]

EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(record: bytes) -> bytes:
    return sha256(b"\x00" + record).digest()


def inner_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree: the hashes of its largest complete subtrees, about log2(size) of them."""

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)

    def copy(self) -> "Frontier":
        return Frontier(self.size, self._peaks)

    def add(self, leaf: bytes) -> list[tuple[Node, bytes]]:
        """Append one leaf's hash; the nodes that became complete by it, lowest first."""
        position, level, node = self.size, 0, leaf
        made = [((0, position), leaf)]
        while position & 1:
            position, level, node = position >> 1, level + 1, inner_hash(self._peaks.pop(), node)
            made.append(((level, position), node))
        self._peaks.append(node)
        self.size += 1
        return made

    def root(self) -> bytes:
        return _fold(self._peaks)


def frontier_at(size: int, read: ReadNodes) -> Frontier:
    """The right edge as it was at `size`, from the stored nodes."""
    wanted = _subtrees((0, size))
    nodes = read(wanted)
    return Frontier(size, [nodes[node] for node in wanted])


def root_at(size: int, read: ReadNodes) -> bytes:
    return frontier_at(size, read).root()


def inclusion_proof(index: int, size: int, read: ReadNodes) -> list[bytes]:
    """PATH of RFC 9162, 2.1.3.1, nearest sibling first."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    spans: list[Span] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _largest_power_below(end - start)
        if index < middle:
            spans.append((middle, end))
            end = middle
        else:
            spans.append((start, middle))
            start = middle
    return _hashes(spans[::-1], read)


def consistency_proof(old: int, new: int, read: ReadNodes) -> list[bytes]:
    """PROOF of RFC 9162, 2.1.4.1: that the tree of `new` leaves begins with the tree of `old`."""
    if not 0 < old <= new:
        raise ValueError(f"a tree of {new} does not grow out of one of {old}")
    spans: list[Span] = []
    start, end = 0, new
    while old != end:
        middle = start + _largest_power_below(end - start)
        if old <= middle:
            spans.append((middle, end))
            end = middle
        else:
            spans.append((start, middle))
            start = middle
    if start:  # otherwise this subtree is the old tree itself, whose root the verifier has
        spans.append((start, end))
    return _hashes(spans[::-1], read)


def includes(root: bytes, size: int, leaf: bytes, index: int, path: Sequence[bytes]) -> bool:
    """Verify an inclusion proof: RFC 9162, 2.1.3.2."""
    if not 0 <= index < size:
        return False
    position, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = inner_hash(sibling, node)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = inner_hash(node, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and node == root


def grew(old_root: bytes, old: int, new_root: bytes, new: int, path: Sequence[bytes]) -> bool:
    """Verify a consistency proof: RFC 9162, 2.1.4.2."""
    if not 0 < old <= new:
        return False
    if old == new:
        return not path and old_root == new_root
    hashes = [old_root, *path] if old & (old - 1) == 0 else list(path)
    if not hashes:
        return False
    position, last = old - 1, new - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    before = after = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            before, after = inner_hash(sibling, before), inner_hash(sibling, after)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            after = inner_hash(after, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and before == old_root and after == new_root


def _largest_power_below(count: int) -> int:
    return 1 << (count - 1).bit_length() - 1


def _subtrees(span: Span) -> list[Node]:
    """The complete subtrees that make up a span, left to right. The RFC's spans begin where the largest of them may stand."""
    start, end = span
    nodes = []
    while start < end:
        level = (end - start).bit_length() - 1
        nodes.append((level, start >> level))
        start += 1 << level
    return nodes


def _hashes(spans: Sequence[Span], read: ReadNodes) -> list[bytes]:
    parts = [_subtrees(span) for span in spans]
    nodes = read([node for part in parts for node in part])
    return [_fold([nodes[node] for node in part]) for part in parts]


def _fold(peaks: Sequence[bytes]) -> bytes:
    if not peaks:
        return EMPTY_ROOT
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = inner_hash(peak, root)
    return root
