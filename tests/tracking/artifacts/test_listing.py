"""Listings: one level with its folders, or everything below; in pages, however large a folder is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sqlalchemy import insert

from falaj.base.errors import Invalid
from falaj.tracking.artifacts import store
from falaj.tracking.operations import artifacts as declared
from tests.tracking.artifacts.shelf import Caller, Shelf

NAMES = some.lists(some.sampled_from(["a", "b", "a-", "a0", "é", "a b", "\U0010ffff"]), min_size=1, max_size=4).map("/".join)


def fill(caller: Caller, holder: str, names: list[str]) -> None:
    """Rows alone: listings look at nothing else."""
    rows = [
        {"id": f"{number:032x}", "project": caller.facts.id, "holder": holder, "name": name, "blob": "b", "size": len(name)}
        | {"digest": "d", "created": 0, "created_by": ""}
        for number, name in enumerate(names)
    ]
    caller.write(lambda context: context.work.execute(insert(store.artifacts), rows))


def one_level(names: set[str], folder: str) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    found = set()
    for name in names:
        if name.startswith(prefix):
            part, slash, _ = name[len(prefix) :].partition("/")
            found.add(prefix + part + slash)
    return sorted(found)


def test_one_level_shows_files_and_folders_with_whole_names(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    for name in ("z", "model/MLmodel", "model/data/x", "a"):
        amal.save(run, name, name.encode())
    assert [(entry.name, entry.folder, entry.size) for entry in amal.entries(run)] == [
        ("a", False, 1),
        ("model", True, 0),
        ("z", False, 1),
    ]
    assert amal.names(run, "model") == ["model/MLmodel", "model/data/"]
    assert amal.names(run, "model", deep=True) == ["model/MLmodel", "model/data/x"]
    assert amal.names(run, deep=True) == ["a", "model/MLmodel", "model/data/x", "z"]
    assert amal.names(run, "nothing") == amal.names(run, "model/MLmodel") == amal.names(run, "mod") == []
    with pytest.raises(Invalid, match="artifact name"):
        amal.names(run, "model/")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_any_names_are_listed_in_order_whole_and_once_in_pages_of_any_size(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shelf = Shelf(tmp_path, request.getfixturevalue("postgres_tables_url") if engine == "postgres" else None)
    amal = shelf.caller()
    holder = amal.new_run()

    @given(names=some.sets(NAMES, max_size=12), limit=some.integers(1, 4), folder=NAMES | some.just(""))
    @settings(max_examples=60 if engine == "sqlite" else 25, deadline=None)
    def check(names: set[str], limit: int, folder: str) -> None:
        amal.write(lambda context: context.work.execute(store.artifacts.delete()))
        if names:
            fill(amal, holder, sorted(names))
        assert amal.names(holder, folder, limit=limit) == one_level(names, folder)
        below = [name for name in sorted(names) if name.startswith(f"{folder}/" if folder else "")]
        assert amal.names(holder, folder, deep=True, limit=limit) == below

    try:
        check()
    finally:
        shelf.database.close()


def test_a_page_goes_on_behind_a_file_that_was_deleted_meanwhile(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    fill(amal, run, ["a", "b", "c/x", "d"])
    first = amal.call(declared.LIST_ARTIFACTS, holder=run, limit=2)
    amal.write(lambda context: store.drop_artifacts(context.work, amal.facts.id, run, "b"))
    rest = amal.call(declared.LIST_ARTIFACTS, holder=run, limit=2, cursor=first.next)
    assert [entry.name for entry in rest.items] == ["c", "d"]
    assert rest.next == ""


def test_the_longest_names_fit_into_cursors(shelf: Shelf) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    names = sorted([f"{number}" + "é" * 990 for number in range(3)])
    for name in names:
        amal.save(run, name)
    assert amal.names(run, limit=1) == names
    longest = amal.call(declared.LIST_ARTIFACTS, holder=run, limit=1).next
    assert len(longest) <= 3000


def test_a_large_folder_is_skipped_and_not_read_through(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    amal = shelf.caller()
    run = amal.new_run()
    fill(amal, run, [f"checkpoints/{number:06}" for number in range(20_000)] + ["a", "z/last"])
    rows_read = []
    read = store.files_between

    def counted(*arguments: Any) -> Any:
        rows = read(*arguments)
        rows_read.append(len(rows))
        return rows

    monkeypatch.setattr(store, "files_between", counted)
    assert amal.names(run) == ["a", "checkpoints/", "z/"]
    assert 0 < sum(rows_read) < 500
    assert amal.names(run, "z", deep=True) == ["z/last"]
    assert rows_read[-1] == 1
