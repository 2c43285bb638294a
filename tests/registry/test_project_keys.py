"""Projects' signing keys: made once, kept under the project's key, rewrapped with it, and gone when it is shredded."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.errors import Corrupt
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork
from falaj.keys.errors import KeyDestroyed
from falaj.keys.file import FileKeyRing
from falaj.keys.ring import project_key
from falaj.registry.operations import keys as declared
from falaj.registry.operations.versions import VersionFile
from falaj.registry.project_keys import ProjectSigners, SigningKeyService
from falaj.registry.signing import fingerprint, sign, verify
from falaj.registry.store.signing_keys import signing_keys
from falaj.storage import store as storage
from falaj.storage.rotation import shred_project
from tests.servers.tables import make_sqlite_tables
from tests.storage.platform import SetClock

ALPHA, BETA = "a" * 32, "b" * 32
FILES = [VersionFile(name="MLmodel", size=1, digest="0" * 64)]


class Keys:
    """A database, a ring and the signers over them."""

    def __init__(self, folder: Path, postgres_url: str | None) -> None:
        if postgres_url is None:
            make_sqlite_tables(folder / "falaj.db")
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(folder / "falaj.db")
        self.clock = SetClock()
        self.ring = FileKeyRing.open_or_create(folder / "keys", escrow=folder / "e.json", clock=self.clock, home_exists=False)
        self.signers = ProjectSigners(self.ring)
        self.service = SigningKeyService(self.signers)

    def sign(self, project: str = ALPHA) -> bytes:
        now = self.clock.move(1)
        return self.database.write(lambda work: sign("m", FILES, self.signers.prepare(work, project, now)))

    def verifies(self, bundle: bytes, project: str = ALPHA) -> bool:
        return verify(bundle, FILES, self.database.read(lambda work: self.signers.public_keys(work, project))).ok

    def rotate_project_key(self, project: str = ALPHA) -> None:
        """As the rotation of the project's key does it."""
        version = self.ring.rotate(project_key(project))

        def count(work: UnitOfWork) -> None:
            storage.mark_rotated(work, project, version, 1)
            self.signers.rewrap(work, project)

        self.database.write(count)

    def rows(self) -> list[Any]:
        return list(self.database.read(lambda work: work.execute(select(signing_keys).order_by(signing_keys.c.id)).all()))

    def context(self, work: UnitOfWork, project: str) -> Context:
        facts = ProjectFacts(id=ProjectId(project), name="alpha", places=())
        identity = Identity(principal=PrincipalId("c" * 32), kind="person", name="amal", token=None, zone="home")
        return Context(work=work, identity=identity, project=facts, now=self.clock.move(1), request_id="r", facts={})

    def listed(self, project: str = ALPHA) -> tuple[declared.SigningKey, ...]:
        request = declared.SigningKeysOf(project="alpha")
        return self.database.read(lambda work: self.service._show(self.context(work, project), request)).items


@pytest.fixture(params=["sqlite", "postgres"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keys]:
    opened = Keys(tmp_path, request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None)
    yield opened
    opened.database.close()


def test_a_project_gets_one_key_on_first_use_and_no_other_project_has_it(keys: Keys) -> None:
    assert keys.listed() == ()
    first, second, other = keys.sign(), keys.sign(), keys.sign(BETA)
    assert len(keys.rows()) == 2
    assert keys.verifies(first)
    assert keys.verifies(second)
    assert keys.verifies(other, BETA)
    assert not keys.verifies(other)
    assert [key.retired for key in keys.listed()] == [None]


def test_the_private_part_is_kept_only_wrapped_and_opens_only_beside_its_public_part(keys: Keys) -> None:
    keys.sign()
    keys.sign(BETA)
    mine, theirs = sorted(keys.rows(), key=lambda row: row.project)
    assert len(bytes(mine.wrapped)) > len(bytes(mine.public))
    for values in ({"public": theirs.public}, {"wrapped": theirs.wrapped}):
        keys.database.write(
            lambda work, to=values: work.execute(signing_keys.update().where(signing_keys.c.id == mine.id).values(to))
        )
        with pytest.raises(Corrupt):
            keys.sign()


def test_rotating_the_projects_key_rewraps_and_the_old_version_is_needed_no_more(keys: Keys) -> None:
    before = keys.sign()
    keys.sign(BETA)
    keys.rotate_project_key()
    assert {row.project: row.ring_version for row in keys.rows()} == {ALPHA: 2, BETA: 1}
    keys.ring.destroy(project_key(ALPHA), 1)
    after = keys.sign()
    assert keys.verifies(before)
    assert keys.verifies(after)
    assert len(keys.listed()) == 1


def test_a_key_that_does_not_open_stands_in_no_rotations_way(keys: Keys) -> None:
    keys.sign()
    keys.database.write(lambda work: work.execute(signing_keys.update().values(wrapped=bytes(60))))
    keys.rotate_project_key()
    assert [row.ring_version for row in keys.rows()] == [1]


def test_a_shredded_project_signs_no_more_and_its_signatures_go_on_verifying(keys: Keys) -> None:
    bundle = keys.sign()
    keys.database.write(lambda work: shred_project(work, ALPHA, keys.clock.now()))
    with pytest.raises(KeyDestroyed):  # at once, before the ring has forgotten anything
        keys.sign()
    keys.database.write(lambda work: keys.signers.forget(work, ALPHA, keys.clock.now()))
    assert [row.wrapped for row in keys.rows()] == [None]
    keys.ring.destroy(project_key(ALPHA))
    with pytest.raises(KeyDestroyed):
        keys.sign()
    assert keys.verifies(bundle)


def test_a_project_that_was_shredded_before_it_signed_gets_no_key(keys: Keys) -> None:
    keys.database.write(lambda work: shred_project(work, ALPHA, keys.clock.now()))
    with pytest.raises(KeyDestroyed):
        keys.sign()
    assert keys.rows() == []


def test_a_rotated_signing_key_forgets_its_private_part_and_goes_on_verifying(keys: Keys) -> None:
    before = keys.sign()
    facts: dict[str, Any] = {}

    def rotate(work: UnitOfWork) -> declared.SigningKeys:
        context = keys.context(work, ALPHA)
        answer = keys.service._rotate(context, declared.SigningKeysOf(project="alpha"))
        facts.update(context.facts)
        return answer

    answer = keys.database.write(rotate)
    old, new = answer.items
    assert old.retired is not None
    assert new.retired is None
    assert facts == {"signing_key": fingerprint(new.pem)}
    assert [row.wrapped is None for row in keys.rows()] == [True, False]
    after = keys.sign()
    assert keys.verifies(before)
    assert keys.verifies(after)
    assert verify(after, FILES, keys.database.read(lambda work: keys.signers.public_keys(work, ALPHA))).key == new.id


def test_first_uses_at_once_leave_one_key_and_all_succeed(keys: Keys) -> None:
    with ThreadPoolExecutor(4) as pool:
        bundles = list(pool.map(lambda _: keys.sign(), range(8)))
    assert len(keys.rows()) == 1
    assert all(keys.verifies(bundle) for bundle in bundles)


def test_every_operation_on_keys_is_bound(keys: Keys) -> None:
    assert [bound.operation for bound in keys.service.bindings()] == list(declared.OPERATIONS)
