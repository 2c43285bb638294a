"""Signing keys: one current per purpose, all of them verify, and the database alone signs nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, update

from falaj.base.caller import Identity
from falaj.base.clock import Moment, SystemClock
from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.ids import PrincipalId
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork, metadata
from falaj.keys.endorsements import Endorsement, endorsed_bytes
from falaj.keys.file import FileKeyRing
from falaj.keys.operations import ListKeys, RotateSigning
from falaj.keys.service import KeyService
from falaj.keys.signatures import PublicKey, chained, endorsements_of, verify, vouched_for
from falaj.keys.signing import Signer, SigningKeys
from falaj.keys.store import signing

NOW = Moment(1_800_000_000_000_000)


@pytest.fixture
def ring(tmp_path: Path) -> FileKeyRing:
    escrow = tmp_path / "escrow.json"
    return FileKeyRing.open_or_create(tmp_path / "keys", escrow=escrow, clock=SystemClock(), home_exists=False)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'falaj.db'}"
        opened: Database = SqliteDatabase(tmp_path / "falaj.db")
    else:
        url = request.getfixturevalue("postgres_url")
        opened = PostgresDatabase(url)
    engine = create_engine(url)
    metadata.create_all(engine, tables=[signing])
    engine.dispose()
    yield opened
    opened.close()


def context(work: UnitOfWork) -> Context:
    identity = Identity(principal=PrincipalId("p" * 32), kind="person", name="operator", token=None, zone="")
    return Context(work=work, identity=identity, project=None, now=NOW, request_id="r", facts={})


def test_the_first_key_is_made_once_and_signs(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    with pytest.raises(NotFound):
        database.read(lambda work: keys.current(work, "ledger"))
    first = database.write(lambda work: keys.prepare(work, "ledger", NOW))
    again = database.write(lambda work: keys.prepare(work, "ledger", NOW))
    assert first.key_id == again.key_id
    signature = again.sign(b"head")
    (public,) = database.read(lambda work: keys.public(work, "ledger"))
    assert (public.id, public.public) == (first.key_id, first.public)
    assert verify(public.public, signature, b"head")
    assert not verify(public.public, signature, b"head2")
    assert not verify(public.public, signature[:-1], b"head")
    assert not verify(b"short", signature, b"head")


def test_what_a_retired_key_signed_still_verifies(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    old = database.write(lambda work: keys.prepare(work, "tokens", NOW)).sign(b"m")
    new = database.write(lambda work: keys.rotate(work, "tokens", NOW))
    listed = database.read(lambda work: keys.public(work, "tokens"))
    assert [key.retired is None for key in listed] == [False, True]
    assert verify(listed[0].public, old, b"m")
    assert not verify(listed[1].public, old, b"m")
    assert database.read(lambda work: SigningKeys(ring).current(work, "tokens")).key_id == new.key_id


def test_two_current_keys_of_one_purpose_cannot_be(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    database.write(lambda work: keys.prepare(work, "ledger", NOW))
    with pytest.raises(Conflict):
        database.write(lambda work: keys._make(work, "ledger", NOW))


def test_a_replaced_public_key_or_purpose_is_noticed(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    database.write(lambda work: keys.prepare(work, "ledger", NOW))
    database.write(lambda work: work.execute(update(signing).values(purpose="tokens")))
    with pytest.raises(Corrupt):
        database.read(lambda work: SigningKeys(ring).current(work, "tokens"))
    database.write(lambda work: work.execute(update(signing).values(purpose="ledger", public=bytes(32))))
    with pytest.raises(Corrupt):
        database.read(lambda work: SigningKeys(ring).current(work, "ledger"))


def test_no_private_key_lies_in_the_database(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    signer = database.write(lambda work: keys.prepare(work, "ledger", NOW))
    (row,) = database.read(lambda work: work.execute(select(signing)).all())
    assert signer._private.private_bytes_raw() not in row.wrapped


def test_keys_are_listed_in_pages_without_material(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    service = KeyService(ring, keys)
    database.write(lambda work: keys.prepare(work, "ledger", NOW))
    for name in ("c", "a", "b"):
        ring.create(name)
    ring.rotate("b")
    first = database.read(lambda work: service.list(context(work), ListKeys(limit=3)))
    rest = database.read(lambda work: service.list(context(work), ListKeys(limit=3, cursor=first.next)))
    assert [key.name for key in (*first.items, *rest.items)] == ["a", "b", "c", "platform"]
    assert [version.version for version in first.items[1].versions] == [1, 2]
    assert [key.purpose for key in first.signing] == ["ledger"]
    assert rest.signing == ()
    assert rest.next == ""


def test_the_operation_rotates_and_an_unknown_purpose_is_refused(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    service = KeyService(ring, keys)
    old = database.write(lambda work: keys.prepare(work, "ledger", NOW))
    new = database.write(lambda work: service.rotate_signing(context(work), RotateSigning(purpose="ledger")))
    assert new.id != old.key_id
    with pytest.raises(NotFound):
        database.write(lambda work: service.rotate_signing(context(work), RotateSigning(purpose="unheard-of")))


def rotated(database: Database, ring: FileKeyRing, times: int, purpose: str = "ledger") -> tuple[PublicKey, ...]:
    keys = SigningKeys(ring)
    database.write(lambda work: keys.prepare(work, purpose, NOW))
    for _ in range(times):
        database.write(lambda work: keys.rotate(work, purpose, NOW))
    return database.read(lambda work: keys.public(work, purpose))


def chain_from(trusted: PublicKey, keys: tuple[PublicKey, ...], purpose: str = "ledger") -> set[str]:
    offered = {key.id: key.public for key in keys}
    endorsements = endorsements_of(keys)
    return set(vouched_for(purpose, trusted={trusted.id: trusted.public}, offered=offered, endorsements=endorsements))


@pytest.mark.parametrize("purpose", ["ledger", "passes"])
def test_each_key_but_the_first_is_endorsed_by_the_one_before(database: Database, ring: FileKeyRing, purpose: str) -> None:
    keys = rotated(database, ring, 3, purpose)
    assert keys[0].endorsement is None
    assert [key.endorsement and key.endorsement.by for key in keys[1:]] == [key.id for key in keys[:-1]]
    assert set(chained(keys)) == {key.id for key in keys}


def test_trust_goes_forward_along_the_chain_and_never_back(database: Database, ring: FileKeyRing) -> None:
    keys = rotated(database, ring, 3)
    for place, key in enumerate(keys):
        assert chain_from(key, keys) == {later.id for later in keys[place:]}


def test_an_endorsement_holds_for_one_key_one_public_key_and_one_purpose(database: Database, ring: FileKeyRing) -> None:
    first, second = rotated(database, ring, 1)
    assert second.endorsement is not None
    assert chain_from(first, (first, second)) == {first.id, second.id}
    assert chain_from(first, (first, second), purpose="passes") == {first.id}
    assert chain_from(first, (first, replace(second, public=bytes(32)))) == {first.id}
    moved = replace(second, id="f" * 32, endorsement=replace(second.endorsement, key="f" * 32))
    assert chain_from(first, (first, moved)) == {first.id}
    assert chain_from(replace(first, public=second.public), (first, second)) == {first.id}
    for signature in ("", "00" * 64, "no hex", second.endorsement.signature[:-2]):
        changed = replace(second, endorsement=replace(second.endorsement, signature=signature))
        assert chain_from(first, (first, changed)) == {first.id}


def test_a_key_hands_over_once(database: Database, ring: FileKeyRing) -> None:
    """Who steals a retired key can endorse with it, and is found out all the same."""
    keys = SigningKeys(ring)
    stolen, heir, planted = (database.write(lambda work, name=name: keys.prepare(work, name, NOW)) for name in ("a", "b", "c"))
    first = PublicKey(id="a", purpose="ledger", public=stolen.public, created=NOW)
    second, third = (
        PublicKey(id=id, purpose="ledger", public=public, created=NOW, endorsement=endorsed(stolen, id, public))
        for id, public in (("b", heir.public), ("c", planted.public))
    )
    assert set(chained((first, second, third))) == {"a", "b"}
    assert set(chained((first, third))) == {"a", "c"}


def test_a_ring_of_endorsements_without_a_first_key_is_believed_by_nobody(database: Database, ring: FileKeyRing) -> None:
    keys = SigningKeys(ring)
    one, two = (database.write(lambda work, name=name: keys.prepare(work, name, NOW)) for name in ("one", "two"))
    circle = (
        PublicKey(id="1", purpose="ledger", public=one.public, created=NOW, endorsement=endorsed(two, "1", one.public, by="2")),
        PublicKey(id="2", purpose="ledger", public=two.public, created=NOW, endorsement=endorsed(one, "2", two.public, by="1")),
    )
    assert chained(circle) == {}
    assert chain_from(circle[0], circle) == {"1", "2"}


def test_a_rotation_that_another_overtook_is_refused(
    database: Database, ring: FileKeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or both successors would be endorsed by the same key."""
    keys = SigningKeys(ring)
    first = database.write(lambda work: keys.prepare(work, "ledger", NOW))
    second = database.write(lambda work: keys.rotate(work, "ledger", NOW))
    monkeypatch.setattr(keys, "current", lambda work, purpose: first)
    with pytest.raises(Conflict):
        database.write(lambda work: keys.rotate(work, "ledger", NOW))
    assert [key.id for key in database.read(lambda work: keys.public(work, "ledger"))] == [first.key_id, second.key_id]


def endorsed(signer: Signer, key: str, public: bytes, by: str = "a") -> Endorsement:
    return Endorsement(key=key, by=by, signature=signer.sign(endorsed_bytes("ledger", key, public)).hex())
