"""From a feature's value to what it leaves possible: the tables behind `tree_masks`, and the small trees that find their rows.

Features of few values share a table. Of those with two values of which at most one is ever set, such as the columns of one
category, a table needs a row for each alone (LightGBM bundles them alike while it trains); rows that set two of them are
recognised, and have to be answered in another way.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from falaj.base.values import value
from falaj.optimisation.making.ensembles import Floats, Tree

Table = npt.NDArray[np.uint64]
_MOST_ROWS: Final = 1024  # of a table that several share
_WORTH_A_BUNDLE: Final = 4


@value
class Lookup:
    """A feature: `ends` of its ranges, the row each range leads to, the row for what is missing, and the different rows."""

    feature: int
    ends: Floats
    places: tuple[int, ...]
    missing: int
    rows: Table

    @property
    def border(self) -> float | None:
        """Where it is one step at one threshold, and what is missing counts as below."""
        changes = [number for number in range(len(self.ends)) if self.places[number] != self.places[number + 1]]
        return float(self.ends[changes[0]]) if len(changes) == 1 and self.missing == self.places[0] else None

    def found(self, values: Floats) -> npt.NDArray[np.int64]:
        """The row for each value."""
        places = np.array(self.places)[np.searchsorted(self.ends, values, side="left")]
        return np.where(np.isnan(values), self.missing, places)


@value
class Bundle:
    """Features of two rows each, of which one is nearly always the `usual`: row 0 of the table has all of them as usual, row
    n the nth unusual alone. A single feature is a bundle too, with all of its rows."""

    members: tuple[Lookup, ...]
    usual: tuple[int, ...] = ()

    @property
    def is_shared(self) -> bool:
        return len(self.members) > 1

    @property
    def rows(self) -> Table:
        if not self.is_shared:
            return self.members[0].rows
        usual = [member.rows[place] for member, place in zip(self.members, self.usual, strict=True)]
        table = [np.bitwise_and.reduce(usual)]
        for number, (member, place) in enumerate(zip(self.members, self.usual, strict=True)):
            others = [*usual[:number], *usual[number + 1 :]]
            table.append(np.bitwise_and.reduce([*others, member.rows[1 - place]]))
        return np.stack(table)


@value
class Lookups:
    """Tables of all combinations of the bundles of a group. `shared` bundles are numbered throughout."""

    groups: tuple[tuple[Bundle, ...], ...]

    @property
    def shared(self) -> int:
        return sum(bundle.is_shared for group in self.groups for bundle in group)

    def sizes(self) -> list[int]:
        return [_size(group) for group in self.groups]

    def table(self) -> Table:
        return np.concatenate([_combined(group) for group in self.groups])

    def search(self) -> "Search":
        """What adds up, for each group, to a row of the table; behind those stands, for each shared bundle, how many of its
        features are unusual."""
        outputs, bundles = len(self.groups) + self.shared, len(self.groups)
        made = Search(offsets=np.zeros(outputs), trees=[], steps={})
        made.offsets[: len(self.groups)] = np.cumsum([0, *self.sizes()])[:-1]
        for number, group in enumerate(self.groups):
            stride = _size(group)
            for bundle in group:
                stride //= len(bundle.rows)
                for place, member in enumerate(bundle.members):
                    counted = np.zeros((len(member.rows), outputs))
                    counted[:, number] = np.arange(len(member.rows)) * stride
                    if bundle.is_shared:
                        counted[:, bundles] = np.arange(2) != bundle.usual[place]
                        counted[:, number] = counted[:, bundles] * (place + 1) * stride
                    made.add(member, counted)
                bundles += bundle.is_shared
        return made


@value
class Search:
    """What is added up for a row: `offsets`, what its leaves in the `trees` say, and for each feature that is above its
    threshold in `steps`, what stands there."""

    offsets: Floats
    trees: list[Tree]
    steps: dict[int, tuple[float, Floats]]

    def add(self, member: Lookup, counted: Floats) -> None:
        border = member.border
        if border is None:
            self.trees.append(_search_tree(member, counted))
            return
        below, above = counted[member.places[0]], counted[member.places[-1]]
        self.offsets[:] += below
        self.steps[member.feature] = border, above - below


def lookups_of(trees: Sequence[Tree], dtype: "np.dtype[np.generic]", sample: Floats, *, bundled: bool) -> Lookups:
    """`sample` tells what is never set together; it is made use of where features may be `bundled`."""
    features = sorted({feature for tree in trees for feature in tree.feature.tolist()})
    found = [_lookup(trees, feature, dtype) for feature in features]
    pairs = [lookup for lookup in found if bundled and len(lookup.rows) == 2]
    singles = [Bundle(members=(lookup,)) for lookup in found if not bundled or len(lookup.rows) != 2]
    return Lookups(groups=_grouped([*singles, *_bundled(pairs, sample)]))


def _lookup(trees: Sequence[Tree], feature: int, dtype: "np.dtype[np.generic]") -> Lookup:
    """What every tree's splits on the feature leave possible, for each range of its values."""
    asked = [(number, node) for number, tree in enumerate(trees) for node in np.flatnonzero(tree.feature == feature).tolist()]
    ends = np.unique([end for number, node in asked for end in trees[number].cuts(node, dtype)])
    values = np.array([*ends, np.inf, np.nan])
    whole = np.array([(1 << len(tree.leaves)) - 1 for tree in trees], dtype=np.uint64)
    table = np.tile(whole, (len(values), 1))
    for number, node in asked:
        on_left, on_right = (_leaf_bits(trees[number], int(side[node])) for side in (trees[number].left, trees[number].right))
        left = trees[number].goes_left(node, values)
        table[:, number] &= np.where(left, ~on_right, ~on_left)
    rows, places = np.unique(table, axis=0, return_inverse=True)
    listed = places.ravel().tolist()
    return Lookup(feature=feature, ends=ends, places=tuple(listed[:-1]), missing=listed[-1], rows=rows)


def _leaf_bits(tree: Tree, below: int) -> np.uint64:
    bits, waiting = 0, [below]
    while waiting:
        at = waiting.pop()
        if at < 0:
            bits |= 1 << ~at
        else:
            waiting += [int(tree.left[at]), int(tree.right[at])]
    return np.uint64(bits)


def _bundled(pairs: Sequence[Lookup], sample: Floats) -> list[Bundle]:
    """Those that are never unusual together in the sample."""
    gathered: list[tuple[list[Lookup], list[int], npt.NDArray[np.bool_]]] = []
    for lookup in pairs:
        found = lookup.found(sample[:, lookup.feature])
        usual = int(2 * np.count_nonzero(found) > len(found))
        unusual = found != usual
        for members, places, taken in gathered:
            if len(members) < _MOST_ROWS - 1 and not (taken & unusual).any():
                members.append(lookup)
                places.append(usual)
                taken |= unusual
                break
        else:
            gathered.append(([lookup], [usual], unusual))
    made = []
    for members, places, _ in gathered:
        if len(members) >= _WORTH_A_BUNDLE:
            made.append(Bundle(members=tuple(members), usual=tuple(places)))
        else:
            made += [Bundle(members=(member,)) for member in members]
    return made


def _grouped(bundles: Sequence[Bundle]) -> tuple[tuple[Bundle, ...], ...]:
    """Few rows together, while a table of all combinations stays small: each group costs a look-up."""
    groups: list[list[Bundle]] = []
    for bundle in sorted(bundles, key=lambda one: len(one.rows)):
        if groups and _size([*groups[-1], bundle]) <= _MOST_ROWS:
            groups[-1].append(bundle)
        else:
            groups.append([bundle])
    return tuple(tuple(group) for group in groups)


def _size(group: Sequence[Bundle]) -> int:
    return int(np.prod([len(bundle.rows) for bundle in group]))


def _combined(group: Sequence[Bundle]) -> Table:
    """All combinations; the first bundle's row changes slowest."""
    table = group[0].rows
    for bundle in group[1:]:
        table = (table[:, None, :] & bundle.rows[None, :, :]).reshape(-1, table.shape[1])
    return table


def _search_tree(lookup: Lookup, counted: Floats) -> Tree:
    """A balanced one over the ranges, which says what is counted for the row; neighbours that lead to one row are one."""
    places = list(lookup.places)
    borders = [number for number in range(len(lookup.ends)) if places[number] != places[number + 1]]
    thresholds = [float(lookup.ends[number]) for number in borders]
    rows = [places[number] for number in borders] + [places[-1]]
    # What is missing goes right everywhere, to the last range, or left everywhere, to the first; else it has a leaf of its own.
    extra = [] if lookup.missing in (rows[0], rows[-1]) else [lookup.missing]
    nodes: list[tuple[float, int, int]] = []

    def split(low: int, high: int) -> int:
        if low == high:
            return ~low
        at, middle = len(nodes), (low + high) // 2
        nodes.append((0.0, 0, 0))
        nodes[at] = (thresholds[middle], split(low, middle), split(middle + 1, high))
        return at

    if extra:  # a root that only what is missing fails
        nodes.append((np.inf, 0, 0))
        nodes[0] = (np.inf, split(0, len(rows) - 1), ~len(rows))
    else:
        split(0, len(rows) - 1)
    return Tree(
        feature=np.full(len(nodes), lookup.feature, dtype=np.int64),
        threshold=np.array([threshold for threshold, _, _ in nodes]),
        left=np.array([left for _, left, _ in nodes], dtype=np.int64),
        right=np.array([right for _, _, right in nodes], dtype=np.int64),
        missing_left=np.full(len(nodes), not extra and lookup.missing != rows[-1]),
        zero_missing=np.zeros(len(nodes), dtype=bool),
        leaves=counted[[*rows, *extra]],
        categories={},
    )
