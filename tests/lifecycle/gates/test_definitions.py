"""What a gate may be, what is meant where nothing is said, and by what its evidence is known."""

from dataclasses import replace
from typing import Any

import pytest

from falaj.base.errors import Invalid
from falaj.lifecycle.gates.definitions import check_together, completed, digest_of, read, written
from falaj.lifecycle.operations.gates import Gate, Requirement


def test_what_is_left_out_means_something_and_is_written_down() -> None:
    gate = completed(Gate(name="quality", kind="quality", on="later", label="left"))
    assert (gate.against, gate.max_drop, gate.max_slice_drop, gate.confidence) == ("champion", 0.01, 0.05, 0.95)
    assert read(written(gate)) == gate
    assert completed(gate) == gate


def test_any_other_limit_is_another_gate_and_other_words_are_not() -> None:
    gate = completed(Gate(name="quality", kind="quality", on="later", label="left"))
    assert digest_of(replace(gate, words="What we ask of every version.")) == digest_of(gate)
    changes: tuple[dict[str, Any], ...] = ({"max_drop": 0.5}, {"on": "other"}, {"against": "none"}, {"slices": ("a",)})
    assert len({digest_of(replace(gate, **one)) for one in ({}, *changes)}) == 5


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        (Gate(name="g", kind="signature", max_drop=0.5), "does not take max_drop"),
        (Gate(name="g", kind="quality", on="later"), "needs label"),
        (Gate(name="g", kind="quality", on="later", label="left", confidence=0.5), "has a confidence of 0.5"),
        (Gate(name="g", kind="quality", on="later", label="left", max_drop=1.0), "has to allow a drop"),
        (Gate(name="g", kind="latency", on="later"), "bounds neither p99_ms nor budget"),
        (Gate(name="g", kind="fairness", on="later", label="left", groups=("a",), max_gap=0.1), "needs positive"),
        (Gate(name="g", kind="fairness", on="later", label="left", groups=("a",), positive="1", max_gap=1.0), "any gap"),
        (Gate(name="g", kind="tests", lock="a==1", image="b"), "lock or image"),
        (Gate(name="g", kind="command"), "needs command"),
    ],
)
def test_what_does_not_suit_the_kind_is_refused(gate: Gate, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        completed(gate)


def test_what_is_required_has_to_be_defined_and_said_once() -> None:
    gates = (Gate(name="a", kind="signature"), Gate(name="b", kind="signature"))
    check_together(gates, (Requirement(alias="champion", gates=("a", "b")),))
    with pytest.raises(Invalid, match="There is no gate 'c'"):
        check_together(gates, (Requirement(alias="champion", gates=("c",)),))
    with pytest.raises(Invalid, match="said twice"):
        check_together(gates, (Requirement(alias="champion", gates=()), Requirement(alias="Champion", gates=())))
    with pytest.raises(Invalid, match="two gates named 'a'"):
        check_together((gates[0], gates[0]), ())
