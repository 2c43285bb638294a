"""What was in place at any past moment, by whom, from which data, and the ledger's word for it."""

import hashlib
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, update

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.database.work import UnitOfWork
from falaj.governance.ledger.store import leaves
from falaj.governance.ledger.trees import leaf_hash
from falaj.governance.roles import Role
from falaj.lineage.graph import Node, link
from falaj.registry.operations import versions as version_operations
from falaj.registry.operations.models import SHOW_MODEL, OneModel
from falaj.registry.store.tables import moves
from tests.registry.platform import PROJECT, START, Platform


def fold(index: int, size: int, hash: bytes, path: tuple[str, ...]) -> str:
    """RFC 9162, 2.1.3.2, written out once more."""
    inner, last, root = index, size - 1, hash
    for node in map(bytes.fromhex, path):
        if inner % 2 or inner == last:
            root = hashlib.sha256(b"\x01" + node + root).digest()
            while not inner % 2 and inner:
                inner, last = inner // 2, last // 2
        else:
            root = hashlib.sha256(b"\x01" + root + node).digest()
        inner, last = inner // 2, last // 2
    return root.hex()


def test_as_of_is_right_at_every_boundary(platform: Platform) -> None:
    platform.model()
    for _ in range(3):
        platform.register()
    for number in (1, 3):
        platform.promote(number)
    platform.rollback()
    platform.promote(2, alias="challenger")
    platform.remove()
    history = platform.history("champion")
    assert [move.version for move in history] == [1, 3, 1, 0]
    before = platform.as_of(Moment(history[0].at - 1))
    assert (before.version, before.move, before.proof) == (0, None, None)
    for move, following in zip(history, [*history[1:], None], strict=True):
        end = following.at if following else platform.clock.now()
        for at in (move.at, Moment((move.at + end) // 2), Moment(end - 1)):
            then = platform.as_of(at)
            assert (then.version, then.move) == (move.version, move)
    with pytest.raises(NotFound, match="There was no"):
        platform.as_of(Moment(START - DAY))
    with pytest.raises(Invalid, match="Nobody knows"):
        platform.as_of(Moment(platform.clock.now() + DAY))


def test_as_of_names_the_version_its_run_and_data_the_approver_and_a_proof_that_holds(team: Platform) -> None:
    team.model()
    version = team.register()

    def use_data(work: UnitOfWork) -> None:
        link(
            work,
            project=team.context(work).required_project.id,
            source=Node(kind="dataset", id="cards@d1g35t"),
            target=Node(kind="run", id=version.run),
            relation="used",
            now=team.clock.now(),
        )

    team.database.write(use_data)
    emil, vida = team.person("emil", Role.ENGINEER), team.person("vida", Role.VALIDATOR)
    team.approve(team.promote(1, emil).approval, vida)
    team.promote(1, emil)
    at = team.clock.now()
    unproven = team.as_of(at)
    assert unproven.proof is None
    assert "not yet" in unproven.ledger
    team.sequence()
    then = team.as_of(at)
    assert (then.version, then.run, then.move and then.move.by.name) == (1, version.run, "emil")
    assert [person.name for person in then.move.approvers] == ["vida"] if then.move else False
    assert [(data.name, data.digest) for data in then.data] == [("cards", "d1g35t")]
    assert then.details is not None
    assert then.details.id == version.id
    proof = then.proof
    assert proof is not None
    assert then.leaf in proof.record
    assert then.move is not None
    assert then.move.id in proof.record
    hash = leaf_hash(proof.record.encode())
    assert hash.hex() == proof.hash
    assert fold(proof.index, proof.head.size, hash, proof.path) == proof.head.root


def test_a_move_that_somebody_changed_in_the_database_is_not_proven(platform: Platform) -> None:
    platform.model()
    for _ in range(2):
        platform.register()
    platform.promote(1)
    platform.sequence()
    at = platform.clock.now()
    assert platform.as_of(at).proof is not None
    platform.change(update(moves).values(version=2))
    changed = platform.as_of(at)
    assert changed.proof is None
    assert "otherwise about version" in changed.ledger
    platform.change(delete(leaves).where(leaves.c.operation == "model.promote"))
    assert "no leaf" in platform.as_of(at).ledger


def test_what_was_deleted_since_is_still_told(platform: Platform) -> None:
    platform.model()
    version = platform.register()
    platform.promote(1)
    at = platform.clock.now()
    platform.remove()
    platform.call(version_operations.DELETE_VERSION, platform.one(1))
    then = platform.as_of(at)
    assert (then.version, then.run, then.details) == (1, version.run, None)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([1, 2, 3, 0, -1]), min_size=1, max_size=8))
def test_as_of_any_moment_is_what_resolving_then_gave(small: Platform, steps: list[int]) -> None:
    """0 removes, -1 rolls back where it can."""
    name = f"model {small.clock.now()}"
    small.model(name)
    for _ in range(3):
        small.register(name=name)
    seen: list[tuple[Moment, int]] = []
    for step in steps:
        if step > 0:
            small.promote(step, name=name)
        elif step == 0:
            small.remove(name=name)
        else:
            with suppress(Conflict):
                small.rollback(name=name)
        aliases = small.call(SHOW_MODEL, OneModel(project=PROJECT, model=name)).aliases
        seen.append((small.clock.now(), aliases[0].version if aliases else 0))
    assert [small.as_of(at, name=name).version for at, _ in seen] == [version for _, version in seen]


def test_as_of_a_stage_says_where_its_moves_are(platform: Platform) -> None:
    platform.model()
    platform.register()
    with pytest.raises(Invalid, match="is a stage"):
        platform.as_of(platform.clock.now(), alias="Production")
