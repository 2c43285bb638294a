"""A tree of folders out of a list of names."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.tracking.operations.artifacts import Entry
from falaj.web.experiments.files import Folder, tree

parts = st.text(alphabet="abc", min_size=1, max_size=2)


def names(folder: Folder) -> list[str]:
    return [file.name for file in folder.files] + [name for inner in folder.folders for name in names(inner)]


@given(st.sets(st.lists(parts, min_size=1, max_size=4).map("/".join), max_size=20))
def test_every_file_stands_once_in_its_folder(given_names: set[str]) -> None:
    found = tree(Entry(name=name, folder=False) for name in given_names)
    assert sorted(names(found)) == sorted(given_names)
    assert found.count == len(given_names)


def test_folders_and_files_come_in_order() -> None:
    found = tree(Entry(name=name, folder=False) for name in ("z.txt", "model/b", "model/a", "data/x/y"))
    assert [folder.shown for folder in found.folders] == ["data", "model"]
    assert [file.shown for file in found.folders[1].files] == ["a", "b"]
    assert found.folders[0].folders[0].files[0].name == "data/x/y"
