"""The tree against the definitions of RFC 9162, section 2.1, written down as they stand there."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.governance.ledger.trees import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    frontier_at,
    grew,
    includes,
    inclusion_proof,
    leaf_hash,
    root_at,
)

# The leaves and roots of Certificate Transparency's reference tests.
KNOWN_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
KNOWN_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def split(n):
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(d):
    if not d:
        return sha256(b"").digest()
    if len(d) == 1:
        return sha256(b"\x00" + d[0]).digest()
    k = split(len(d))
    return sha256(b"\x01" + mth(d[:k]) + mth(d[k:])).digest()


def path(m, d):
    if len(d) == 1:
        return []
    k = split(len(d))
    return [*path(m, d[:k]), mth(d[k:])] if m < k else [*path(m - k, d[k:]), mth(d[:k])]


def subproof(m, d, known):
    if m == len(d):
        return [] if known else [mth(d)]
    k = split(len(d))
    return [*subproof(m, d[:k], known), mth(d[k:])] if m <= k else [*subproof(m - k, d[k:], False), mth(d[:k])]


def grown(records):
    frontier, nodes = Frontier(), {}
    for record in records:
        nodes.update(frontier.add(leaf_hash(record)))
    return frontier, lambda wanted: {node: nodes[node] for node in wanted}


def records(size):
    return [b"leaf %d" % number for number in range(size)]


sizes = st.integers(1, 130)


@pytest.mark.parametrize("size", range(1, 9))
def test_the_roots_are_those_of_the_known_vectors(size):
    frontier, _ = grown([bytes.fromhex(leaf) for leaf in KNOWN_LEAVES[:size]])
    assert frontier.root().hex() == KNOWN_ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing():
    assert Frontier().root() == EMPTY_ROOT == mth([])


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=70), st.data())
def test_any_earlier_root_can_be_had_from_the_nodes(leaves, data):
    size = data.draw(st.integers(0, len(leaves)))
    frontier, read = grown(leaves)
    assert frontier.root() == mth(leaves)
    assert root_at(size, read) == mth(leaves[:size])


@given(sizes, st.data())
def test_a_tree_can_be_grown_on_from_any_size(size, data):
    start = data.draw(st.integers(0, size))
    whole, read = grown(records(size))
    resumed = frontier_at(start, read)
    for record in records(size)[start:]:
        resumed.add(leaf_hash(record))
    assert (resumed.size, resumed.root()) == (whole.size, whole.root())


@given(sizes, st.data())
def test_inclusion_proofs_are_those_of_the_rfc_and_hold(size, data):
    index = data.draw(st.integers(0, size - 1))
    d = records(size)
    frontier, read = grown(d)
    proof = inclusion_proof(index, size, read)
    assert proof == path(index, d)
    assert includes(frontier.root(), size, leaf_hash(d[index]), index, proof)


@given(sizes, st.data())
def test_an_inclusion_proof_holds_for_nothing_else(size, data):
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(0, size + 2))
    d = records(size)
    frontier, read = grown(d)
    proof, root = inclusion_proof(index, size, read), frontier.root()
    leaf = leaf_hash(d[index])
    assert not includes(root, size, leaf_hash(b"another"), index, proof)
    assert not includes(root, size, leaf, index, [*proof, bytes(32)])
    assert not includes(bytes(32), size, leaf, index, proof)
    assert other == index or not includes(root, size, leaf, other, proof)
    if proof:
        spoiled = data.draw(st.integers(0, len(proof) - 1))
        assert not includes(root, size, leaf, index, [*proof[:spoiled], bytes(32), *proof[spoiled + 1 :]])
        assert not includes(root, size, leaf, index, proof[:-1])


@given(sizes, st.data())
def test_consistency_proofs_are_those_of_the_rfc_and_hold(new, data):
    old = data.draw(st.integers(1, new))
    d = records(new)
    frontier, read = grown(d)
    proof = consistency_proof(old, new, read)
    assert proof == subproof(old, d, True)
    assert grew(mth(d[:old]), old, frontier.root(), new, proof)


@given(st.integers(2, 130), st.data())
def test_a_consistency_proof_does_not_hold_for_a_rewritten_past(new, data):
    old = data.draw(st.integers(1, new - 1))
    changed = data.draw(st.integers(0, old - 1))
    d = records(new)
    frontier, read = grown(d)
    proof = consistency_proof(old, new, read)
    past = [*d[:changed], b"rewritten", *d[changed + 1 : old]]
    assert not grew(mth(past), old, frontier.root(), new, proof)
    assert not grew(mth(d[:old]), old, mth([*past, *d[old:]]), new, proof)
    assert not grew(mth(d[:old]), old, frontier.root(), new, [*proof, bytes(32)])
    assert not grew(mth(d[:old]), old, frontier.root(), new, proof[:-1])


def test_a_proof_reads_a_handful_of_nodes():
    _, read = grown(records(5000))
    asked = []

    def counting(wanted):
        asked.extend(wanted)
        return read(wanted)

    inclusion_proof(1234, 5000, counting)
    consistency_proof(1234, 5000, counting)
    assert len(asked) < 60


@pytest.mark.parametrize(("index", "size"), [(5, 5), (-1, 5), (0, 0)])
def test_a_leaf_outside_the_tree_has_no_proof(index, size):
    with pytest.raises(ValueError, match="not in a tree"):
        inclusion_proof(index, size, dict)
    assert not includes(bytes(32), size, bytes(32), index, [])


@pytest.mark.parametrize(("old", "new"), [(0, 3), (4, 3)])
def test_a_tree_does_not_grow_out_of_nothing_or_backwards(old, new):
    with pytest.raises(ValueError, match="does not grow"):
        consistency_proof(old, new, dict)
    assert not grew(bytes(32), old, bytes(32), new, [])
