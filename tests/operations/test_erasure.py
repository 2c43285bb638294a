"""Erasing a person: what the ledger holds about the person can be confirmed by nobody, and every leaf stays."""

import pytest
from sqlalchemy import select

from falaj.base.errors import Forbidden
from falaj.database.work import UnitOfWork
from falaj.governance.identity import operations as identity
from falaj.governance.identity.member_operations import ADD_PLATFORM_MEMBER, PlatformMember
from falaj.governance.ledger.leaves import commitment
from falaj.governance.ledger.operations import VERIFY, VerifyLedger
from falaj.governance.ledger.recording import SEED
from falaj.governance.ledger.store import salts, windows
from falaj.governance.policies.operations import EXPLAIN, Explain
from falaj.governance.roles import Role
from tests.operations.conftest import PING, PUT, Bench, PutNote

ABOUT = {"layla", "Layla Haddad", "layla@example.org"}


def confirmed(bench: Bench, texts: set[str]) -> set[tuple[str, str]]:
    """Which leaves can be shown to be about one of these texts: by trying every salt there is on every commitment."""
    kept = bench.platform.database.read(lambda work: work.execute(select(salts)).all())
    found = set()
    for leaf in bench.leaves():
        for salt in (row.salt for row in kept if row.leaf == leaf.id):
            sayable = {commitment(bytes(salt), text): text for text in texts}
            for field in leaf.request.values():
                if isinstance(field, dict) and field.get("commitment") in sayable:
                    found.add((leaf.operation, sayable[field["commitment"]]))
    return found


def layla(bench: Bench) -> identity.Invited:
    request = identity.CreateUser(name="layla", display="Layla Haddad", email="layla@example.org")
    invited: identity.Invited = bench.call(identity.CREATE_USER, request)
    return invited


def test_after_erasing_a_person_no_commitment_about_the_person_can_be_confirmed(bench: Bench) -> None:
    layla(bench)
    bench.call(ADD_PLATFORM_MEMBER, PlatformMember(member="layla", role=Role.AUDITOR))
    for operation in (identity.DISABLE_USER, identity.ENABLE_USER):
        bench.call(operation, identity.OneUser(user="layla"))
    stranger = bench.person("omar", Role.SCIENTIST)
    for refused in (
        lambda: bench.call(identity.DISABLE_USER, identity.OneUser(user="layla"), token=stranger),
        lambda: bench.call(EXPLAIN, Explain(action="blob.put", principal="layla"), token=stranger),
    ):
        with pytest.raises(Forbidden):
            refused()
    about = confirmed(bench, ABOUT)
    assert {name for name, _ in about} == {
        "user.create",
        "platform.add-member",
        "user.disable",
        "user.enable",
        "policy.explain",
    }
    assert {text for _, text in about} == ABOUT
    leaves = bench.leaves()

    bench.call(identity.ERASE_USER, identity.OneUser(user="layla"))

    assert confirmed(bench, ABOUT) == set()
    assert confirmed(bench, {"omar"}) != set()
    assert bench.leaves()[: len(leaves)] == leaves
    [leaf] = bench.leaves("user.erase")
    assert set(leaf.request["user"]) == {"commitment"}
    assert leaf.facts["salts"] >= 7
    bench.platform.sequencer.step()
    assert bench.call(VERIFY, VerifyLedger()).ok


def test_with_a_person_go_the_salts_of_what_the_person_entered(bench: Bench) -> None:
    token = bench.person("layla", Role.SCIENTIST)
    bench.call(PUT, PutNote(project="default", text="my own words"), token=token)
    bench.call(PING, PutNote(project="default", text="measured"), token=token)
    bench.put("somebody else's words")
    bench.call(PING, PutNote(project="default", text="measured"))
    assert confirmed(bench, {"my own words"}) == {("note.put", "my own words")}
    id = bench.call(identity.SHOW_USER, identity.OneUser(user="layla")).id

    bench.call(identity.ERASE_USER, identity.OneUser(user="layla"))
    bench.platform.sequencer.step(close_all_windows=True)

    def seeds(work: UnitOfWork) -> list[str]:
        assert work.execute(select(windows)).first() is None
        return [row.principal for row in work.execute(select(salts.c.principal).where(salts.c.field == SEED))]

    assert confirmed(bench, {"my own words"}) == set()
    assert confirmed(bench, {"somebody else's words"}) == {("note.put", "somebody else's words")}
    kept = bench.platform.database.read(seeds)
    assert len(kept) == 1
    assert id not in kept
    assert bench.call(VERIFY, VerifyLedger()).ok


def test_an_erasure_that_failed_leaves_the_salts(bench: Bench) -> None:
    layla(bench)
    before = confirmed(bench, ABOUT)
    bench.refuse_leaves()
    with pytest.raises(Exception, match=r".+"):
        bench.call(identity.ERASE_USER, identity.OneUser(user="layla"))
    bench.take_leaves()
    assert confirmed(bench, ABOUT) == before
    bench.call(identity.ERASE_USER, identity.OneUser(user="layla"))
    assert confirmed(bench, ABOUT) == set()
