"""References are read back as they were written, whatever numbers they were made of; and what is none says so."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from falaj.base.errors import Corrupt
from falaj.monitoring import deciding, joined, pieces, references
from falaj.monitoring.checking import distances_of
from falaj.monitoring.deciding import Rule, Standing, decided
from falaj.monitoring.references import ALWAYS, Column, Reference, edges_of, new_key

LARGEST = 1.7976931348623157e308
COUNTS = st.lists(st.integers(0, 2**62), min_size=4, max_size=4).map(tuple)


@given(st.lists(st.floats(), max_size=30))
@example([-LARGEST, 1.0])
@example([1.0, LARGEST])
@example([-LARGEST, LARGEST])
def test_edges_are_finite_and_rise_whatever_numbers_there_were(numbers: list[float]):
    edges = edges_of(sorted(one for one in numbers if not math.isnan(one)))
    assert edges
    assert all(map(math.isfinite, edges))
    assert list(edges) == sorted(set(edges))
    assert math.isfinite(edges[-1] - edges[0])
    reference = Reference(key=new_key(), source="traffic", columns=(Column(name="a", edges=edges),))
    assert references.decode(references.encode(reference)) == reference


@given(COUNTS, COUNTS)
@example((2**62, 0, 0, 0), (0, 0, 0, 2**62))
def test_what_is_decided_of_any_counts_is_finite_and_read_back(usual: tuple[int, ...], seen: tuple[int, ...]):
    column = Column(name="a", edges=(-1e300, 1e300)).with_counts(ALWAYS, usual).with_counts(ALWAYS, usual)
    assert max(column.rows, *column.counts[ALWAYS]) <= 2**62
    reference = Reference(key=new_key(), source="traffic", columns=(Column(**_fields(column) | {"settled": True}),))
    standing = Standing(detectors={})
    for _ in range(3):
        standing, outcomes = decided(reference, standing, ALWAYS, {"a": seen}, Rule(floor=0.1, one_in=1000), lambda *_: seen)
        assert all(math.isfinite(one.evidence) and math.isfinite(one.effect) for one in outcomes)
        assert deciding.decode(deciding.encode(standing)) == standing
    if sum(seen[:-1]) and sum(column.counts[ALWAYS][:-1]):
        assert all(map(math.isfinite, distances_of(column, column.counts[ALWAYS], seen).values()))


def _fields(column: Column) -> dict[str, object]:
    return {"name": column.name, "edges": column.edges, "counts": column.counts, "rows": column.rows}


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[[]]", b'{"key": null}', b"\xff", b"[" * 100_000])
def test_what_is_no_document_says_so_and_never_ends_who_reads_others(content: bytes):
    for decode in (references.decode, pieces.decode, pieces.decode_pieces, joined.decode):
        with pytest.raises(Corrupt):
            decode(content)
