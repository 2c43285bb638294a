"""A version is held against its signature whenever it is used; whoever changes rows or bytes is found out."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.database.work import UnitOfWork
from falaj.registry.operations import promotions
from falaj.registry.operations import versions as declared
from falaj.registry.store.tables import documents, files, versions
from falaj.storage.operations import BLOB_SHRED, OneBlob
from falaj.storage.store import blobs
from tests.registry.platform import PROJECT, Platform


@pytest.fixture
def two(platform: Platform) -> Platform:
    """Two versions of two files each; the first is the champion, and was used already."""
    platform.model()
    for number in (1, 2):
        platform.register(files={"model/a.bin": b"a%d" % number, "model/b.bin": b"b%d" % number})
    platform.promote(1)
    assert platform.read_file("a.bin") == b"a1"
    return platform


def ids(platform: Platform) -> list[str]:
    return [platform.show(number).id for number in (1, 2)]


def swap(platform: Platform) -> None:
    """The first version's files and signature become those of the second, word for word."""
    first, second = ids(platform)

    def copy(work: UnitOfWork) -> None:
        rows = work.execute(select(files).where(files.c.version == second)).all()
        bundle = work.execute(select(documents.c.bundle).where(documents.c.version == second)).scalar_one()
        work.execute(delete(files).where(files.c.version == first))
        work.execute(insert(files), [row._asdict() | {"version": first} for row in rows])
        work.execute(update(documents).where(documents.c.version == first).values(bundle=bundle))

    platform.database.write(copy)


def of_first(platform: Platform) -> Any:
    return files.c.version == ids(platform)[0]


TAMPERING: dict[str, Callable[[Platform], None]] = {
    "another digest": lambda platform: platform.change(
        update(files).where(of_first(platform), files.c.name == "a.bin").values(digest="0" * 64)
    ),
    "a file less": lambda platform: platform.change(delete(files).where(of_first(platform), files.c.name == "b.bin")),
    "no files": lambda platform: platform.change(delete(files).where(of_first(platform))),
    "a file more": lambda platform: platform.change(
        insert(files).values(
            version=ids(platform)[0], key="x", position=9, name="c.bin", blob="0" * 32, size=1, digest="1" * 64
        ),
    ),
    "another name": lambda platform: platform.change(
        update(files).where(of_first(platform), files.c.name == "a.bin").values(name="c.bin")
    ),
    "no signature": lambda platform: platform.change(update(documents).values(bundle="")),
    "a broken signature": lambda platform: platform.change(update(documents).values(bundle='{"mediaType": 3}')),
    "another version's": swap,
}


@pytest.mark.parametrize("tampering", TAMPERING)
def test_a_version_whose_list_was_changed_is_not_used(two: Platform, tampering: str) -> None:
    TAMPERING[tampering](two)
    with pytest.raises(Corrupt, match="not what was signed"):
        two.resolve()
    with pytest.raises(Corrupt, match="not what was signed"):
        two.promote(1, alias="challenger")
    assert two.show(1).aliases == ("champion",)
    report = two.call(declared.VERIFY_VERSION, two.one(1))
    assert not report.ok
    assert report.problems


def test_a_file_whose_row_was_changed_is_not_given_out_though_the_version_was_used_before(two: Platform) -> None:
    blob = two.database.read(
        lambda work: work.execute(select(files.c.blob, files.c.digest, files.c.size).where(files.c.name == "b.bin")).first()
    )
    assert blob is not None
    mine = update(files).where(of_first(two), files.c.name == "a.bin")
    two.change(mine.values(blob=blob.blob))
    with pytest.raises(Corrupt, match="not what was registered"):
        two.read_file("a.bin")
    two.change(mine.values(blob=blob.blob, digest=blob.digest, size=blob.size))
    with pytest.raises(Corrupt, match="differs from what was signed"):
        two.read_file("a.bin")


def test_every_byte_is_verified_when_asked(two: Platform) -> None:
    assert two.call(declared.VERIFY_VERSION, two.one(1)).ok
    row = two.database.read(lambda work: work.execute(select(files).where(of_first(two), files.c.name == "a.bin")).one())
    stored = two.database.read(lambda work: work.execute(select(blobs).where(blobs.c.id == row.blob)).one())
    file = two.folder / "blobs" / stored.object[:2] / stored.object
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    report = two.call(declared.VERIFY_VERSION, two.one(1))
    assert not report.ok
    assert [problem for problem in report.problems if "'a.bin'" in problem]
    file.unlink()
    assert not two.call(declared.VERIFY_VERSION, two.one(1)).ok
    assert two.call(declared.VERIFY_VERSION, two.one(2)).ok


def test_a_blob_that_was_swapped_for_another_is_found(two: Platform) -> None:
    other = two.database.read(lambda work: work.execute(select(files).where(files.c.version == ids(two)[1])).all())[0]
    two.change(update(files).where(of_first(two), files.c.name == "a.bin").values(blob=other.blob))
    report = two.call(declared.VERIFY_VERSION, two.one(1))
    assert report.signed
    assert any("holds other bytes" in problem for problem in report.problems)


def stage(platform: Platform, number: int, stage: Any) -> promotions.Promotion:
    request = promotions.SetStage(project=PROJECT, model="fraud", version=number, stage=stage)
    return platform.call(promotions.SET_STAGE, request)


def shred(platform: Platform, name: str) -> None:
    """A file of the first version, by its blob."""
    row = platform.database.read(lambda work: work.execute(select(files).where(of_first(platform), files.c.name == name)).one())
    platform.call(BLOB_SHRED, OneBlob(project=PROJECT, blob=row.blob))


def test_a_version_that_lost_a_file_is_not_used_and_the_refusal_names_the_file(two: Platform) -> None:
    shred(two, "b.bin")
    uses: list[Callable[[], object]] = [
        two.resolve,
        lambda: two.promote(1, alias="challenger"),
        lambda: stage(two, 1, "Production"),
        lambda: two.read_file("b.bin"),
    ]
    for use in uses:
        with pytest.raises(Conflict, match=r"'b\.bin' of version 1 of model 'fraud' is gone"):
            use()
    two.promote(2)
    with pytest.raises(Conflict, match=r"'b\.bin'"):
        two.rollback()
    assert two.resolve() == 2
    shred(two, "a.bin")
    with pytest.raises(Conflict, match=r"'a\.bin' and 1 more"):
        two.promote(1)


def test_a_version_that_lost_a_file_can_be_taken_out_of_use_and_deleted(two: Platform) -> None:
    stage(two, 1, "Production")
    shred(two, "b.bin")
    assert stage(two, 1, "Archived").state == "done"
    two.remove()
    two.call(declared.DELETE_VERSION, two.one(1))
    with pytest.raises(NotFound):
        two.show(1)


def test_two_files_of_the_same_bytes_are_both_there(two: Platform) -> None:
    same = two.register(files={"model/c.bin": b"same", "model/d.bin": b"same"})
    assert two.promote(same.version).state == "done"
    assert two.resolve() == same.version


def test_a_version_marked_as_unsigned_is_still_held_against_its_files(two: Platform) -> None:
    two.change(update(versions).values(digest=""), update(documents).values(bundle=""))
    with pytest.raises(Corrupt):
        two.resolve()


def test_what_nobody_has_cannot_be_verified(two: Platform) -> None:
    with pytest.raises(NotFound):
        two.call(declared.VERIFY_VERSION, two.one(9))
    with pytest.raises(NotFound):
        two.call(promotions.RESOLVE, promotions.Resolve(project=PROJECT, model="fraud", alias="unknown"))
