"""The declarations travel: every request and result survives being JSON."""

import pytest
from pydantic import TypeAdapter

from falaj.base.operation import Download
from falaj.governance.ledger import operations as ops
from tests.governance.ledger.conftest import Invite, Ledger


def test_every_declaration_has_a_json_schema(ledger: Ledger):
    for bound in ledger.service.bindings():
        TypeAdapter(bound.operation.request).json_schema()
        if bound.operation.result is not Download:
            TypeAdapter(bound.operation.result).json_schema(mode="serialization")


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        ("log", ops.ReadLog()),
        ("head", ops.ReadHead()),
        ("prove", ops.ProveLeaf(index=1)),
        ("prove_growth", ops.ProveGrowth(old=1, new=3)),
        ("verify", ops.VerifyLedger()),
        ("follow", ops.FollowLog(format="cloudevents")),
        ("erase_salts", ops.EraseSalts(principal="a" * 32)),
    ],
)
def test_results_come_back_from_json_as_they_were(ledger: Ledger, handler, request_):
    ledger.record(1, request=Invite(note="personal"))
    ledger.grow(3)
    result = ledger.ask(getattr(ledger.service, handler), request_)
    adapter = TypeAdapter(type(result))
    assert adapter.validate_json(adapter.dump_json(result)) == result


def test_a_head_can_be_handed_in_as_json(ledger: Ledger):
    [head] = ledger.grow(3)
    adapter = TypeAdapter(ops.VerifyLedger)
    request = adapter.validate_json(adapter.dump_json(ops.VerifyLedger(expected=head)))
    assert ledger.ask(ledger.service.verify, request).ok
