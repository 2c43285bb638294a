"""Checkpoints of trainings without torch."""

import os

import pytest

from falaj.training.checkpoints.bytes import SavedBytes, saved_bytes_from_environment
from falaj.training.checkpoints.errors import NoneUsable
from falaj.training.checkpoints.keys import GivenKey

KEY = GivenKey(b"k" * 32)


def test_what_was_saved_last_comes_back_and_nothing_of_it_is_plain(tmp_path):
    saved = SavedBytes(tmp_path, KEY)
    assert saved.load() is None
    for number in range(5):
        saved.save(b"weights of step %d " % number * 100, step=number)
    assert SavedBytes(tmp_path, KEY).load() == b"weights of step 4 " * 100
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(kept) == 2
    assert all(b"weights" not in file.read_bytes() for file in kept)


def test_a_damaged_one_is_found_and_the_one_before_it_used(tmp_path, caplog):
    saved = SavedBytes(tmp_path, KEY)
    saved.save(b"first", step=1)
    saved.save(b"second", step=2)
    newest = max(tmp_path.glob("*/content"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert saved.load() == b"first"
    assert "is not used" in caplog.text


def test_it_never_begins_anew_over_what_it_cannot_open(tmp_path):
    SavedBytes(tmp_path, KEY).save(b"first")
    with pytest.raises(NoneUsable):
        SavedBytes(tmp_path, GivenKey(b"o" * 32)).load()


def test_what_a_death_left_half_written_is_no_checkpoint(tmp_path, monkeypatch):
    saved = SavedBytes(tmp_path, KEY)
    saved.save(b"first")
    with monkeypatch.context() as dying:
        dying.setattr("falaj.training.checkpoints.folders.publish", lambda *_: os._exit(9))
        if (child := os.fork()) == 0:
            saved.save(b"second")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert len(list(tmp_path.iterdir())) == 2
    assert saved.load() == b"first"
    saved.save(b"third")
    assert saved.load() == b"third"
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_a_training_that_is_no_job_has_none(tmp_path):
    assert saved_bytes_from_environment({}) is None
    given = {"FALAJ_CHECKPOINTS": str(tmp_path), "FALAJ_CHECKPOINT_KEY": "ab" * 32}
    saved = saved_bytes_from_environment(given)
    saved.save(b"x")
    assert saved_bytes_from_environment(given).load() == b"x"
