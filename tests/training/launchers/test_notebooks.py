"""Cells of a notebook become a script; what only a notebook understands stays behind."""

import json
from pathlib import Path

import pytest

from falaj.training.launchers.errors import Unreadable
from falaj.training.launchers.notebooks import script_of


def notebook(place: Path, *cells: str) -> Path:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    file = place / "notes.ipynb"
    file.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# Words"}, *made], "nbformat": 4}))
    return file


def test_code_cells_are_joined_without_magics(tmp_path: Path):
    file = notebook(
        tmp_path, "%matplotlib inline\nimport torch\n!pip install x\ntorch?", "%%time\nx = 1", "%%bash\nls", "y = x + 1"
    )
    made = script_of(file)
    assert (made.cells, made.dropped) == (4, 6)
    assert " ".join(made.text.split()) == "# cell 1 import torch # cell 2 x = 1 # cell 3 # cell 4 y = x + 1"


def test_cells_are_chosen_by_number(tmp_path: Path):
    file = notebook(tmp_path, "a = 1", "b = 2", "c = 3")
    assert script_of(file, [3, 1]).text == "# cell 1\na = 1\n\n\n# cell 3\nc = 3\n"
    with pytest.raises(Unreadable, match=r"notes\.ipynb has 3 code cells, and no cell 4"):
        script_of(file, [4])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["x = 1", "%time\nfor x in :"], r"Cell 2 of notes\.ipynb cannot be run: line 2: invalid syntax"),
        (["files = !ls"], r"Cell 1 of notes\.ipynb cannot be run: line 1"),
    ],
)
def test_a_cell_that_is_no_python_is_named_with_its_line(tmp_path: Path, cells: list[str], words: str):
    with pytest.raises(Unreadable, match=words):
        script_of(notebook(tmp_path, *cells))


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": [{"cell_type": "code"}]}', '{"worksheets": []}', "[" * 100_000])
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str):
    (tmp_path / "notes.ipynb").write_text(text)
    with pytest.raises(Unreadable, match=r"is no notebook of format 4"):
        script_of(tmp_path / "notes.ipynb")
