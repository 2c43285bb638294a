import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.cli.importing.journal import Done, Journal
from falaj.cli.importing.target import MOST_BYTES, id_of, parcels

ABOUT = {"source": "sqlite:///a", "target": "http://b", "project": "c"}
DONE = Done(mark="m", id="x", counts={"artifacts": 3}, beyond="s3://bucket")


def test_what_was_finished_is_known_when_it_is_opened_again(tmp_path: Path):
    journal = Journal(tmp_path / "deep" / "state", ABOUT)
    journal.add("run", "1", DONE)
    journal.add("run", "1", Done(mark="newer", id="x", counts={}))
    journal.close()
    again = Journal(tmp_path / "deep" / "state", ABOUT)
    assert again.get("run", "1") == Done(mark="newer", id="x", counts={})
    assert again.get("model", "1") is None
    again.close()


@pytest.mark.parametrize("left", range(1, 90, 7))
def test_a_line_that_a_crash_cut_off_is_as_if_it_had_not_been_begun(tmp_path: Path, left: int):
    journal = Journal(tmp_path / "state", ABOUT)
    journal.add("run", "whole", DONE)
    size = journal.file.stat().st_size
    journal.add("run", "torn", DONE)
    journal.close()
    os.truncate(journal.file, size + left)
    for _ in range(2):
        again = Journal(tmp_path / "state", ABOUT)
        assert again.get("run", "whole") == DONE
        assert again.get("run", "torn") is None
        again.add("run", "after", DONE)
        assert again.get("run", "after") == DONE
        again.close()


def test_the_state_of_another_import_is_not_taken_for_this_one(tmp_path: Path):
    Journal(tmp_path / "state", ABOUT).close()
    with pytest.raises(Invalid, match="another import"):
        Journal(tmp_path / "state", ABOUT | {"project": "other"})
    (tmp_path / "notes.txt").write_text('{"my": "notes"}')
    with pytest.raises(Invalid, match="not a state"):
        Journal(tmp_path / "notes.txt", ABOUT)
    assert (tmp_path / "notes.txt").read_text() == '{"my": "notes"}'


def test_a_fresh_look_forgets_what_was_finished(tmp_path: Path):
    first = Journal(tmp_path / "state", ABOUT)
    first.add("run", "1", DONE)
    first.close()
    fresh = Journal(tmp_path / "state", ABOUT, fresh=True)
    assert fresh.get("run", "1") is None
    fresh.close()


@given(st.lists(st.integers(0, MOST_BYTES * 2), max_size=60), st.integers(1, 10))
def test_parcels_hold_everything_in_its_order_and_none_is_too_large(sizes: list[int], most: int):
    made = list(parcels(sizes, most, lambda size: size))
    assert [size for parcel in made for size in parcel] == sizes
    for parcel in made:
        assert 1 <= len(parcel) <= most
        assert len(parcel) == 1 or sum(parcel) <= MOST_BYTES


@given(st.text())
def test_a_run_always_has_the_same_id_here_and_its_own_where_that_can_be(run: str):
    assert id_of(run) == id_of(run)
    assert len(id_of(run)) == 32
    assert id_of(id_of(run)) == id_of(run)
