"""Rotating the signing key: an auditor follows from the keys he kept, and a key that somebody planted is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from falaj.base.encoding import canonical
from falaj.base.errors import Invalid
from falaj.database.work import Database, metadata
from falaj.governance.ledger import operations as ops
from falaj.governance.ledger.key_checks import PURPOSE
from falaj.governance.ledger.offline import verify_export
from falaj.governance.ledger.reports import Report
from falaj.governance.ledger.sequencing import Sequencer
from falaj.governance.ledger.service import LedgerService
from falaj.governance.ledger.signatures import sign_head
from falaj.keys.endorsements import Endorsement, endorsed_bytes
from falaj.keys.file import FileKeyRing
from falaj.keys.signing import Signer, SigningKeys
from falaj.keys.store import signing
from tests.governance.ledger.conftest import KeySigner, Ledger


class Signed(Ledger):
    """A ledger under the platform's own signing keys."""

    def __init__(self, database: Database, directory: Path) -> None:
        database.write(lambda work: metadata.create_all(work.connection, tables=[signing]))
        self.directory = directory
        super().__init__(database, directory)
        ring = FileKeyRing.open_or_create(
            directory / "keys", escrow=directory / "escrow.json", clock=self.clock, home_exists=False
        )
        self.signing = SigningKeys(ring)
        for purpose in (PURPOSE, "passes"):
            database.write(lambda work, purpose=purpose: self.signing.prepare(work, purpose, self.clock.now()))
        self.sequencer = Sequencer(database, lambda work: self.signing.current(work, PURPOSE), self.copies, self.clock)
        self.service = LedgerService(database, self.signing.every, self.copies)

    def rotate(self, purpose: str = PURPOSE) -> Signer:
        return self.database.write(lambda work: self.signing.rotate(work, purpose, self.clock.now()))

    def state(self) -> ops.LedgerState:
        state: ops.LedgerState = self.ask(self.service.head, ops.ReadHead())
        return state

    def export(self) -> Path:
        download = self.ask(self.service.export, ops.ExportLedger())
        file = self.directory / download.name
        file.write_bytes(b"".join(download.chunks))
        return file

    def report(self) -> Report:
        report: Report = self.ask(self.service.verify, ops.VerifyLedger())
        return report

    def plant(
        self, id: str, public: bytes, *, purpose: str = PURPOSE, endorsed_by: str | None, endorsement: bytes | None
    ) -> None:
        """As somebody with the database's password would; the key that signs is retired for it."""
        retire = "UPDATE keys_signing SET retired = :now WHERE purpose = :purpose AND retired IS NULL"
        self.sql(retire, now=int(self.clock.now()), purpose=purpose)
        self.sql(
            "INSERT INTO keys_signing (id, purpose, public, wrapped, ring_version, created, endorsed_by, endorsement)"
            " VALUES (:id, :purpose, :public, :wrapped, 1, :created, :endorsed_by, :endorsement)",
            id=id,
            purpose=purpose,
            public=public,
            wrapped=b"wrapped",
            created=int(self.clock.now()),
            endorsed_by=endorsed_by,
            endorsement=endorsement,
        )


@pytest.fixture
def signed(database: Database, tmp_path: Path) -> Signed:
    return Signed(database, tmp_path)


def trusted(state: ops.LedgerState) -> dict[str, bytes]:
    return {key: bytes.fromhex(public) for key, public in state.keys.items()}


def names(report: Report) -> set[str]:
    return {str(finding.name) for finding in report.findings}


def edit_header(file: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    lines = file.read_bytes().splitlines(keepends=True)
    header = json.loads(lines[0])
    change(header)
    lines[0] = canonical(header) + b"\n"
    file.write_bytes(b"".join(lines))
    return file


@pytest.mark.parametrize("rotations", [1, 3])
def test_an_export_made_after_rotations_verifies_with_the_keys_kept_before(signed: Signed, rotations: int) -> None:
    signed.grow(3)
    kept = signed.state()
    for _ in range(rotations):
        signed.rotate()
        signed.grow(2)
    report = verify_export(signed.export(), keys=trusted(kept), expected=kept.head)
    assert report.ok, report.findings
    assert report.leaves == 3 + 2 * rotations
    assert verify_export(signed.export()).ok
    assert signed.report().ok


def test_the_head_carries_the_endorsements_of_its_keys_alone(signed: Signed) -> None:
    first = next(iter(signed.state().keys))
    assert signed.state().endorsements == ()
    signed.rotate("passes")
    new = signed.rotate()
    state = signed.state()
    assert set(state.keys) == {first, new.key_id}
    assert [(one.key, one.by) for one in state.endorsements] == [(new.key_id, first)]


def test_a_key_offered_without_an_endorsement_is_not_believed_and_nothing_it_signed_is(signed: Signed) -> None:
    signed.grow(3)
    kept = signed.state()
    signed.rotate()
    signed.grow(2)
    file = edit_header(signed.export(), lambda header: header.update(endorsements=[]))
    assert names(verify_export(file, keys=trusted(kept), expected=kept.head)) == {
        "key-unendorsed",
        "head-forged",
        "leaf-unsigned",
    }
    assert "key-unendorsed" in names(verify_export(file))


def test_another_platforms_history_is_not_believed_however_well_it_is_chained(signed: Signed) -> None:
    signed.grow(3)
    signed.rotate()
    signed.grow(2)
    stranger = KeySigner("stranger")
    report = verify_export(signed.export(), keys={stranger.key_id: stranger.public})
    assert not report.ok
    assert [str(finding.name) for finding in report.findings].count("key-unendorsed") == 2
    assert "head-forged" in names(report)


def test_a_trusted_key_is_not_replaced_by_what_the_file_says_under_its_id(signed: Signed) -> None:
    signed.grow(3)
    kept = signed.state()
    thief, (id, public) = KeySigner(), next(iter(trusted(kept).items()))
    file = edit_header(signed.export(), lambda header: header["keys"].update({id: thief.public.hex()}))
    report = verify_export(file, keys={id: public}, expected=kept.head)
    assert names(report) == {"key-unendorsed"}
    own = endorsement(thief, "planted", thief.public, by=id)
    offer = {"keys": {id: thief.public.hex(), "planted": thief.public.hex()}, "endorsements": [own.document()]}
    report = verify_export(edit_header(file, lambda header: header.update(offer)), keys={id: public})
    assert [str(finding.name) for finding in report.findings] == ["key-unendorsed", "key-unendorsed"]


@pytest.mark.parametrize("spoiled", [None, "x", [1], [{"key": "a", "by": "b"}], [{"key": 1, "by": "b", "signature": ""}]])
def test_spoiled_endorsements_make_no_export(signed: Signed, spoiled: Any) -> None:
    file = edit_header(signed.export(), lambda header: header.update(endorsements=spoiled))
    with pytest.raises(Invalid, match="endorsements"):
        verify_export(file)


@pytest.mark.parametrize("purpose", [PURPOSE, "passes"])
@pytest.mark.parametrize("claims", ["nothing", "an endorser", "an endorsement by itself", "another purpose's endorsement"])
def test_a_key_planted_in_the_database_is_named(signed: Signed, purpose: str, claims: str) -> None:
    signed.grow(3)
    before = signed.rotate(purpose)
    thief = KeySigner("f" * 32)
    by = None if claims == "nothing" else before.key_id
    signature = {
        "nothing": None,
        "an endorser": None,
        "an endorsement by itself": thief.sign(endorsed_bytes(purpose, thief.key_id, thief.public)),
        "another purpose's endorsement": before.sign(endorsed_bytes("other", thief.key_id, thief.public)),
    }[claims]
    signed.plant(thief.key_id, thief.public, purpose=purpose, endorsed_by=by, endorsement=signature)
    [finding] = signed.report().findings
    assert str(finding.name) == "key-unendorsed"
    assert thief.key_id in finding.message


def test_what_a_planted_key_signed_is_forged(signed: Signed) -> None:
    [head] = signed.grow(3)
    thief = KeySigner("f" * 32)
    signed.plant(thief.key_id, thief.public, endorsed_by=None, endorsement=None)
    forged = sign_head(thief, size=3, root=bytes.fromhex(head.root), at=head.at, previous=None)
    signed.sql(
        "UPDATE ledger_heads SET key = :key, signature = :signature WHERE size = 3", key=forged.key, signature=forged.signature
    )
    assert names(signed.report()) == {"key-unendorsed", "head-forged"}


def test_a_key_taken_out_of_the_chain_is_missed(signed: Signed) -> None:
    signed.grow(1)
    middle, last = signed.rotate(), signed.rotate()
    signed.sql("DELETE FROM keys_signing WHERE id = :id", id=middle.key_id)
    [finding] = signed.report().findings
    assert str(finding.name) == "key-unendorsed"
    assert last.key_id in finding.message


def endorsement(signer: KeySigner, key: str, public: bytes, *, by: str) -> Endorsement:
    return Endorsement(key=key, by=by, signature=signer.sign(endorsed_bytes(PURPOSE, key, public)).hex())
