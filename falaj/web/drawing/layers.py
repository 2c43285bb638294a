"""Placing the nodes of a graph in layers from left to right, so that what came later stands further right."""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)
ROUNDS = 4


def layered(nodes: Sequence[N], edges: Iterable[tuple[N, N]]) -> list[list[N]]:
    """Every node once. An edge leads to a later layer, unless it closes a circle; within a layer, neighbours stand close."""
    known = set(nodes)
    pairs = [(source, target) for source, target in dict.fromkeys(edges) if source in known and target in known]
    rank = _ranks(nodes, pairs)
    rows: defaultdict[int, list[N]] = defaultdict(list)
    for node in nodes:
        rows[rank[node]].append(node)
    layers = [rows[level] for level in sorted(rows)]
    return _untangled(layers, pairs)


def _ranks(nodes: Sequence[N], pairs: Sequence[tuple[N, N]]) -> dict[N, int]:
    """The longest way to each node. Nodes of a circle are let in one by one, in the order they were given."""
    waiting: defaultdict[N, set[N]] = defaultdict(set)
    onward: defaultdict[N, list[N]] = defaultdict(list)
    for source, target in pairs:
        if source != target:
            waiting[target].add(source)
            onward[source].append(target)
    rank: dict[N, int] = {}
    least: defaultdict[N, int] = defaultdict(int)
    ready = deque(node for node in nodes if not waiting[node])
    left = deque(nodes)
    while len(rank) < len(nodes):
        while left[0] in rank:
            left.popleft()
        node = ready.popleft() if ready else left.popleft()
        if node in rank:
            continue
        rank[node] = least[node]
        for target in onward[node]:
            if target not in rank:
                least[target] = max(least[target], rank[node] + 1)
                waiting[target].discard(node)
                if not waiting[target]:
                    ready.append(target)
    return _pulled_right(rank, onward)


def _pulled_right(rank: dict[N, int], onward: Mapping[N, Sequence[N]]) -> dict[N, int]:
    """What nothing comes before stands just before what it leads to, and not at the far left."""
    reached = {target for targets in onward.values() for target in targets}
    for node in rank:
        if node not in reached and (following := [rank[target] for target in onward.get(node, ())]):
            rank[node] = max(rank[node], min(following) - 1)
    return rank


def _untangled(layers: list[list[N]], pairs: Sequence[tuple[N, N]]) -> list[list[N]]:
    """Order each layer by where its neighbours stand, back and forth a few times."""
    beside: defaultdict[N, list[N]] = defaultdict(list)
    for source, target in pairs:
        beside[source].append(target)
        beside[target].append(source)
    place = {node: float(index) for layer in layers for index, node in enumerate(layer)}
    for turn in range(ROUNDS):
        for layer in layers if turn % 2 == 0 else reversed(layers):
            layer.sort(key=lambda node: _middle(node, beside, place))
            for index, node in enumerate(layer):
                place[node] = index - (len(layer) - 1) / 2
    return layers


def _middle(node: N, beside: Mapping[N, Sequence[N]], place: Mapping[N, float]) -> float:
    neighbours = [place[other] for other in beside.get(node, ())]
    return sum(neighbours) / len(neighbours) if neighbours else place[node]
