"""What the next start is to do otherwise: kept beside the checkpoints, and believed only as far as it is the job's own."""

import hashlib
import hmac
import json
import math

import pytest

from falaj.training.profiling.changes import NAME, Changes, Keeper, changes_in, in_words, keeper_from_environment

KEY = bytes(range(32))


def test_changes_come_back_as_they_were_kept(tmp_path):
    changes = Changes(wanted={"loader_workers": 6, "micro_batch": 16}, rate=402.5, refused=("pin_memory",))
    Keeper(tmp_path, KEY).write(changes)
    assert Keeper(tmp_path, KEY).read() == changes


def test_where_nothing_was_kept_nothing_is_changed(tmp_path):
    assert Keeper(tmp_path, KEY).read() == Changes()


@pytest.mark.parametrize("spoil", ["key", "number", "cut", "large", "list"])
def test_a_file_that_is_not_the_job_s_own_counts_for_nothing(tmp_path, spoil):
    Keeper(tmp_path, KEY).write(Changes(wanted={"loader_workers": 6}))
    file = tmp_path / NAME
    content = file.read_bytes()
    key = bytes(32) if spoil == "key" else KEY
    spoilt = {
        "key": content,
        "number": content.replace(b": 6", b": 7"),
        "cut": content[:-20],
        "large": content + b" " * (1 << 16),
        "list": b"[1, 2]",
    }
    file.write_bytes(spoilt[spoil])
    assert Keeper(tmp_path, key).read() == Changes()


@pytest.mark.parametrize("number", [-1, 65, 1e6, True, "6", None, [6]])
def test_a_number_out_of_its_bounds_counts_for_nothing_even_if_it_is_sealed(tmp_path, number):
    """By a script that has the job's key and tries to give its own next start something else than it may have."""
    said = {"wanted": {"loader_workers": number, "micro_batch": 8, "command": 1}, "rate": math.inf, "refused": ["command"]}
    text = json.dumps(said)
    seal = hmac.new(hmac.digest(KEY, b"falaj training profile 1", hashlib.sha256), text.encode(), hashlib.sha256).hexdigest()
    (tmp_path / NAME).write_text(json.dumps({"changes": text, "seal": seal}))
    assert Keeper(tmp_path, KEY).read() == Changes(wanted={"micro_batch": 8})


def test_what_cannot_be_written_stops_nothing(tmp_path):
    Keeper(tmp_path / "missing", KEY).write(Changes(wanted={"threads": 2}))
    assert not (tmp_path / "missing").exists()


def test_without_a_folder_or_a_key_nothing_is_kept(tmp_path):
    assert keeper_from_environment({}) is None
    assert keeper_from_environment({"FALAJ_CHECKPOINTS": str(tmp_path)}) is None
    assert keeper_from_environment({"FALAJ_CHECKPOINTS": str(tmp_path), "FALAJ_CHECKPOINT_KEY": KEY.hex()}) is not None


def test_changes_are_told_in_words():
    wanted = {"loader_workers": 1, "micro_batch": 16, "pin_memory": 1, "threads": 2}
    assert in_words(wanted) == "1 loader worker, 16 rows at a time, pinned memory, 2 threads"
    assert in_words({"loader_workers": 0, "pin_memory": 0}) == "0 loader workers, no pinned memory"


ENDLESS = f'{{"wanted": {{}}, "rate": 1{"0" * 400}, "refused": []}}'


def test_a_text_that_is_none_of_ours_has_no_changes():
    assert changes_in(Changes(wanted={"threads": 2}, rate=3.5).text()) == Changes(wanted={"threads": 2}, rate=3.5)
    for text in ("1", "", "{}", "[" * 100_000, '{"wanted": {"threads": 1e9}, "rate": "x"}', "null", ENDLESS):
        assert changes_in(text) == Changes()
