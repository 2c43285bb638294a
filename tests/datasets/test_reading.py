"""Reading versions: by grant, by query, as a preview; and what happens where a part is not what was sealed."""

from pathlib import Path

import pytest

from falaj.base.errors import Corrupt, Forbidden, Invalid, NotFound
from falaj.datasets.mentions import mentioned
from falaj.datasets.operations import reading
from falaj.governance.roles import Role
from falaj.tables.errors import Altered
from falaj.tables.parts import PartReader
from tests.datasets.platform import CSV, PROJECT, Platform, arrow

MORE = b"id,name,score\n4,dam,3.5\n"


def preview(platform: Platform, **fields: object) -> reading.FoundRows:
    return platform.call(reading.PREVIEW, reading.Preview(project=PROJECT, dataset="flights", version="current", **fields))  # type: ignore[arg-type]


def test_a_grant_has_all_that_is_needed_to_read_a_version_and_is_recorded(platform: Platform) -> None:
    version = platform.write(CSV, MORE)
    grant = platform.grant()
    assert (grant.version, grant.rows, grant.digest, grant.lineage) == (1, 4, version.digest, version.lineage)
    assert [part.rows for part in grant.parts] == [3, 1]
    (leaf,) = platform.leaves("dataset.grant")
    assert leaf["facts"]["version"] == version.id
    assert grant.parts[0].key not in str(leaf)


def test_a_part_is_read_sealed_and_in_ranges(small: Platform) -> None:
    small.write(CSV)
    (part,) = small.grant().parts
    whole = small.part(part.id)
    assert len(whole) == part.size
    assert b"channel" not in whole
    assert small.part(part.id, 10, 5) == whole[10:15]
    assert small.part(part.id, part.size) == b""
    with pytest.raises(Invalid, match="behind the end"):
        small.part(part.id, part.size + 1)
    with pytest.raises(NotFound, match="no part"):
        small.part("0" * 32)
    with pytest.raises(Altered):
        PartReader(whole, key=bytes(32), object_id=part.object)


def test_a_query_finds_the_versions_it_speaks_of(small: Platform) -> None:
    small.write(CSV)
    small.write(MORE)
    small.write(arrow(id=[1, 4], flow=[10, 40]), dataset="dams-2")
    found = small.query('SELECT f.name, d.flow FROM Flights AS f JOIN "dams-2" AS d USING (id) ORDER BY id')
    assert (found.rows, found.versions) == ((("well", 10), ("dam", 40)), ("dams-2@1", "flights@2"))
    assert small.query('SELECT count(*) FROM "flights@1"').rows == ((3,),)
    assert small.query("SELECT 1").versions == ()
    leaf = small.leaves("dataset.query")[0]
    assert len(leaf["facts"]["versions"]) == 2
    assert "well" not in str(leaf)


def test_a_query_sees_only_the_tables_that_are_named(small: Platform) -> None:
    small.write(CSV)
    small.write(CSV, dataset="other")
    with pytest.raises(Invalid, match="other"):
        small.query("SELECT * FROM other", "flights")
    assert small.query("SELECT count(*) FROM flights", "flights").rows == ((3,),)
    with pytest.raises(NotFound, match="no version 7"):
        small.query("SELECT 1", "flights@7")


def test_an_answer_is_cut_at_the_limit_and_says_so(small: Platform) -> None:
    small.write(CSV)
    found = small.query("SELECT id FROM flights ORDER BY id", limit=2)
    assert (found.rows, found.more) == (((1,), (2,)), True)
    assert not small.query("SELECT id FROM flights").more


def test_a_preview_has_the_first_rows_and_the_columns_that_are_asked_for(small: Platform) -> None:
    small.write(CSV)
    found = preview(small, limit=2, columns=("name",))
    assert (found.rows, found.more, found.versions) == ((("well",), ("channel",)), True, ("flights@1",))
    with pytest.raises(Invalid, match="no column 'depth'"):
        preview(small, columns=("depth",))


def test_who_is_not_of_the_project_reads_nothing(small: Platform) -> None:
    small.write(CSV)
    viewer, stranger = small.person("rim", Role.VIEWER), small.person("nobody")
    assert small.grant(token=viewer).rows == 3
    for attempt in (lambda: small.grant(token=stranger), lambda: small.query("SELECT 1", token=stranger)):
        with pytest.raises((NotFound, Forbidden)):
            attempt()


def test_a_part_that_was_flipped_or_lost_is_named_and_nothing_of_it_is_told(small: Platform, tmp_path: Path) -> None:
    small.write(CSV)
    (part,) = small.grant().parts
    (file,) = tmp_path.joinpath("blobs").rglob(part.object)
    whole = bytearray(file.read_bytes())
    whole[60] ^= 1  # in a page of the first column
    file.write_bytes(whole)
    with pytest.raises(Corrupt, match=part.object):
        small.query("SELECT * FROM flights")
    file.unlink()
    for attempt in (lambda: preview(small), lambda: small.part(part.id)):
        with pytest.raises(Corrupt, match=part.object):
            attempt()


def test_words_of_a_query_that_could_be_datasets_are_found() -> None:
    found = mentioned('SELECT "Sum"(a.b) FROM "flights@3" JOIN dams_1 ON \'x\' = "no name" ')
    assert {"flights@3", "dams_1", "sum", "a", "b"} <= found
    assert "no name" not in found
