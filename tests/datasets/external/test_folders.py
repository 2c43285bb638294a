"""A folder of Parquet files that stays where it is, registered and read as any other dataset."""

import os
from pathlib import Path
from typing import Any

import pytest

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.datasets.external.pins import ChangedUpstream
from falaj.datasets.operations.places import LIST_PLACES, REMOVE_PLACE, Address, ListPlaces, OnePlace
from falaj.governance.projects.store import project_named
from falaj.governance.roles import Role
from falaj.lineage.graph import Node, ancestors
from falaj.storage.errors import StorageRefused
from tests.datasets.external.lake import declare, folder_place, refresh, register, step, write_file
from tests.datasets.platform import PROJECT, Platform
from tests.datasets.test_pushing import flush, push


@pytest.fixture
def lake(small: Platform, tmp_path: Path) -> Path:
    folder = folder_place(small, tmp_path)
    write_file(folder / "sales/orders/1.parquet", id=[1, 2], price=[0.5, None])
    write_file(folder / "sales/orders/2.parquet", id=[3], price=[2.5])
    (folder / "sales/orders/_SUCCESS").write_text("")
    return folder


def test_a_pinned_table_reads_as_what_is_there(small: Platform, lake: Path):
    before = small.objects()
    version = register(small)
    assert (version.rows, version.mode, version.parts) == (3, "pin", 2)
    kept = len(small.objects() - before)
    assert kept == 4  # a key and a profile for each file, and nothing of its rows
    assert small.rows(name="orders") == [(1, 0.5), (2, None), (3, 2.5)]
    assert small.query("SELECT sum(id) FROM orders").rows == ((6,),)
    project = small.database.read(lambda work: project_named(work, PROJECT).id)  # type: ignore[union-attr]
    walk = small.database.read(lambda work: ancestors(work, project, Node(kind="dataset", id=version.lineage), 1))
    assert [node.label for node in walk.nodes] == ["lake:sales/orders, 2 files"]
    shown = small.dataset("orders").external
    assert shown is not None
    assert (shown.place, shown.kind, shown.table) == ("lake", "parquet", "sales/orders")


def test_what_changes_upstream_is_said_and_never_read(small: Platform, lake: Path):
    register(small)
    write_file(lake / "sales/orders/1.parquet", id=[1, 9], price=[0.5, None])
    with pytest.raises(ChangedUpstream, match=r"1\.parquet' in the place 'lake' was changed upstream since it was pinned"):
        small.query("SELECT * FROM orders")
    grant = small.grant(name="orders")
    with pytest.raises(ChangedUpstream, match="was changed upstream"):
        small.part(grant.parts[0].id, name="orders")
    assert small.part(grant.parts[1].id, name="orders")
    (lake / "sales/orders/1.parquet").unlink()
    with pytest.raises(ChangedUpstream, match=r"1\.parquet' in the place 'lake' is gone upstream"):
        small.query("SELECT * FROM orders")
    assert refresh(small).version == 2
    assert small.rows(name="orders") == [(3, 2.5)]


def test_what_is_added_upstream_waits_for_a_refresh(small: Platform, lake: Path):
    first = register(small)
    assert refresh(small).id == first.id
    write_file(lake / "sales/orders/3.parquet", id=[4], price=[1.0], note=["new"])
    assert small.query("SELECT count(*) FROM orders").rows == ((3,),)
    second = refresh(small)
    assert (second.version, second.parent, second.rows) == (2, 1, 4)
    assert [column.name for column in second.columns] == ["id", "price", "note"]
    assert small.rows("1", "orders") == [(1, 0.5), (2, None), (3, 2.5)]
    assert small.rows("2", "orders")[-1] == (4, 1.0, "new")


def test_ranges_of_a_part_are_of_one_copy_that_goes_when_nobody_reads(small: Platform, lake: Path):
    register(small)
    own = small.objects()
    part = small.grant(name="orders").parts[0]
    whole = small.part(part.id, name="orders")
    assert len(whole) == part.size
    (lake / "sales/orders/1.parquet").unlink()  # no range is fetched again
    halves = [small.part(part.id, offset, length, "orders") for offset, length in ((0, 100), (100, part.size - 100))]
    assert b"".join(halves) == whole
    small.clock.forward(2 * 3_600_000_000)
    small.room.step(small.clock.now())
    with pytest.raises(ChangedUpstream):
        small.part(part.id, name="orders")
    small.collector.step(small.clock.now())
    assert len(own) == 4


def test_rows_are_only_changed_where_they_are(small: Platform, lake: Path):
    register(small)
    for mode, fields in (("append", {}), ("overwrite", {}), ("merge", {"keys": ("id",)}), ("delete", {"where": "id = 1"})):
        with pytest.raises(Conflict, match="only read"):
            small.open(mode, "orders", **fields)
    small.delete("orders")
    assert (lake / "sales/orders/1.parquet").exists()


@pytest.mark.parametrize("table", ["../other", "sales/../../other", "sales//orders", "sales/./orders", "..", "a\\b"])
def test_no_table_leads_out_of_its_place(small: Platform, lake: Path, tmp_path: Path, table: str):
    write_file(tmp_path / "other/1.parquet", id=[1])
    with pytest.raises(Invalid):
        register(small, table=table)


def test_no_link_leads_out_of_a_folder(small: Platform, lake: Path, tmp_path: Path):
    write_file(tmp_path / "other/1.parquet", id=[1])
    (lake / "linked").symlink_to(tmp_path / "other")
    (lake / "sales/orders/3.parquet").symlink_to(tmp_path / "other/1.parquet")
    (tmp_path / "other/board-salaries.xlsx").write_text("")
    with pytest.raises(Forbidden, match="leads out of the place 'lake'") as refused:
        register(small, table="linked")
    assert "salaries" not in str(refused.value)  # nor is it said what is there
    assert register(small).rows == 3


def test_what_was_pushed_and_answered_is_not_stranded_by_a_table_of_the_same_name(small: Platform, lake: Path):
    push(small, {"id": 7}, dataset="orders", create=True)
    with pytest.raises(Conflict, match="in no version yet"):
        register(small)
    assert flush(small, "orders").rows == 1


def test_a_folder_that_may_not_be_read_is_told_and_not_left_out(small: Platform, lake: Path, monkeypatch: pytest.MonkeyPatch):
    write_file(lake / "sales/orders/closed/1.parquet", id=[4])
    scandir = os.scandir

    def refusing(path: os.PathLike[str]) -> Any:  # whoever runs this may be allowed everything
        if os.fspath(path).endswith("closed"):
            raise PermissionError
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(StorageRefused, match="the place 'lake' refuses to be read"):
        register(small)


def test_a_file_whose_name_is_no_text_is_told(small: Platform, lake: Path):
    (lake / "sales/orders/1.parquet").rename(lake / "sales/orders" / os.fsdecode(b"\xff.parquet"))
    with pytest.raises(Invalid, match="no text in UTF-8"):
        register(small)


def test_a_place_is_for_the_projects_it_was_declared_for(small: Platform, lake: Path):
    small.project("stranger")
    token = small.person("mallory", Role.SCIENTIST, project="stranger")
    with pytest.raises(NotFound, match="There is no place 'lake'"):
        step(small, project="stranger", token=token)
    register(small)
    declare(small, address=Address(folder=str(lake)), projects=("stranger",))
    with pytest.raises(NotFound, match="no place 'lake' that the project 'default' may use"):
        small.query("SELECT * FROM orders")
    with pytest.raises(Forbidden):
        small.call(LIST_PLACES, ListPlaces(), token)
    with pytest.raises(Conflict, match="delete those first"):
        small.call(REMOVE_PLACE, OnePlace(place="lake"))


def test_folders_that_the_settings_do_not_name_are_no_places(small: Platform, tmp_path: Path):
    for folder in (str(tmp_path), "/etc", f"{tmp_path}/lake/../other", "lake"):
        with pytest.raises(Forbidden, match=r"data\.folders"):
            declare(small, address=Address(folder=folder))
