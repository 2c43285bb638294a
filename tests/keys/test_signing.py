"""Signing keys: one current per purpose, all of them verify, and the database alone signs nothing."""

from collections.abc import Iterator
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
from falaj.keys.file import FileKeyRing
from falaj.keys.operations import ListKeys, RotateSigning
from falaj.keys.service import KeyService
from falaj.keys.signing import SigningKeys, verify
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
