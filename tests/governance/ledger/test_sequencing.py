"""Order, heads and their copies, also when two work at once or one dies in the middle."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from falaj.base.errors import Corrupt
from falaj.base.operation import Record
from falaj.governance.ledger import store
from falaj.governance.ledger.copies import HeadCopies, read_copy
from falaj.governance.ledger.heads import head_of
from falaj.governance.ledger.leaves import decode
from falaj.governance.ledger.recording import SEED, append, chained, count
from falaj.governance.ledger.signatures import is_genuine
from falaj.governance.ledger.store import StoredLeaf
from falaj.operations.messages import without_secrets
from tests.governance.ledger.conftest import PROJECT, Invite, KeySigner, Ledger, Member, identity, operation


def sequenced(ledger: Ledger) -> list[StoredLeaf]:
    return ledger.database.read(lambda work: store.sequenced(work, 0, 1 << 40))


def test_a_leaf_has_no_index_until_the_sequencer_came(ledger: Ledger):
    [leaf] = ledger.record()
    assert ledger.database.read(lambda work: store.find_leaf(work, id=leaf)).index is None
    step = ledger.sequencer.step()
    assert (step.sequenced, step.more, step.head.size) == (1, False, 1)
    assert ledger.database.read(lambda work: store.find_leaf(work, id=leaf)).index == 0


def test_leaves_are_ordered_by_time_and_id(ledger: Ledger):
    ids = ledger.record(20)
    ledger.sequencer.step()
    assert [leaf.readable().id for leaf in sequenced(ledger)] == ids


def test_a_leaf_of_a_failed_effect_is_not_there(ledger: Ledger):
    def fail(work):
        append(
            work,
            operation=operation(),
            request=Invite(),
            identity=None,
            project="",
            now=ledger.clock.now(),
            request_id="r",
            facts={},
        )
        raise RuntimeError("the effect failed")

    with pytest.raises(RuntimeError):
        ledger.database.write(fail)
    assert ledger.sequencer.step().head is None


def test_a_leaf_that_appears_late_gets_a_later_index_and_moves_nobody(ledger: Ledger):
    early = ledger.clock.now()
    ledger.grow(3)
    before = [leaf.record for leaf in sequenced(ledger)]
    ledger.database.write(
        lambda work: append(
            work, operation=operation(), request=Invite(), identity=None, project="", now=early, request_id="late", facts={}
        )
    )
    ledger.sequencer.step()
    after = sequenced(ledger)
    assert [leaf.record for leaf in after[:3]] == before
    assert after[3].readable().request_id == "late"
    assert ledger.verify().ok


def test_no_head_is_made_when_nothing_is_new(ledger: Ledger):
    ledger.grow(1)
    assert ledger.sequencer.step().head is None
    assert len(list(read_copy(ledger.copy_file))) == 1


def test_batches_are_bounded_and_say_when_more_waits(ledger: Ledger):
    ledger.record(25)
    sequencer = ledger.make_sequencer(batch=10)
    assert [(step.sequenced, step.more) for step in (sequencer.step(), sequencer.step(), sequencer.step())] == [
        (10, True),
        (10, True),
        (5, False),
    ]
    assert ledger.verify().ok


def test_heads_are_signed_and_chained_and_copied_outside(ledger: Ledger):
    first, second = ledger.grow(3, 2)
    assert is_genuine(first, ledger.keys)
    assert is_genuine(second, ledger.keys)
    assert (first.previous, second.previous) == ("", first.digest())
    assert list(read_copy(ledger.copy_file)) == [first, second]
    assert ledger.copy_file.stat().st_mode & 0o077 == 0


def test_a_signature_over_a_head_holds_for_no_other(ledger: Ledger):
    [head] = ledger.grow(1)
    changes = {"size": 2, "root": "00" * 32, "at": str(ledger.clock.now()), "previous": "00", "key": "other"}
    for name, changed in changes.items():
        assert not is_genuine(head_of(head.document() | {name: changed}), ledger.keys), name


def test_a_rotated_key_signs_from_then_on_and_both_verify(ledger: Ledger):
    ledger.grow(1)
    ledger.signer = KeySigner("key-2")
    ledger.keys["key-2"] = ledger.signer.public
    [head] = ledger.grow(1)
    assert head.key == "key-2"
    assert ledger.verify().ok


def test_copies_that_a_crash_prevented_are_written_at_the_next_step(ledger: Ledger, monkeypatch):
    ledger.grow(1)
    with monkeypatch.context() as patch:
        patch.setattr("falaj.governance.ledger.sequencing.failpoint", _die)
        ledger.record(2)
        with pytest.raises(Died):
            ledger.sequencer.step()
    assert len(list(read_copy(ledger.copy_file))) == 1
    assert ledger.verify().ok
    assert ledger.sequencer.step().copied == 1
    assert [head.size for head in read_copy(ledger.copy_file)] == [1, 3]


def test_a_torn_last_line_is_written_again(ledger: Ledger):
    heads = ledger.grow(1, 1)
    whole = ledger.copy_file.read_bytes()
    ledger.copy_file.write_bytes(whole[:-20])
    assert ledger.verify().ok
    ledger.sequencer.step()
    assert ledger.copy_file.read_bytes() == whole
    assert list(read_copy(ledger.copy_file)) == heads


def test_a_further_directory_gets_all_heads_from_the_beginning(ledger: Ledger, tmp_path):
    heads = ledger.grow(1, 2, 3)
    ledger.copies = HeadCopies([tmp_path / "heads", tmp_path / "elsewhere" / "deep"])
    ledger.make_sequencer().step()
    assert list(read_copy(tmp_path / "elsewhere" / "deep" / "heads.jsonl")) == heads


def test_nothing_is_copied_over_the_evidence_of_a_rollback(ledger: Ledger):
    ledger.grow(1, 2)
    evidence = ledger.copy_file.read_bytes()
    ledger.sql("DELETE FROM ledger_heads WHERE size = 3")
    ledger.sql("DELETE FROM ledger_nodes WHERE level = 0 AND position > 0")
    ledger.sql("DELETE FROM ledger_nodes WHERE level > 0")
    ledger.sql("DELETE FROM ledger_leaves WHERE position > 0")
    ledger.record(5)
    with pytest.raises(Corrupt, match="rolled back"):
        ledger.sequencer.step()
    assert ledger.copy_file.read_bytes() == evidence


def test_nothing_is_signed_on_top_of_a_tampered_tree(ledger: Ledger):
    ledger.grow(4)
    ledger.sql("UPDATE ledger_nodes SET hash = :hash WHERE level = 2", hash=bytes(32))
    ledger.record(1)
    with pytest.raises(Corrupt, match="not the one signed"):
        ledger.sequencer.step()
    ledger.sql("DELETE FROM ledger_nodes WHERE level = 2")
    with pytest.raises(Corrupt, match="is gone"):
        ledger.sequencer.step()


def test_two_sequencers_at_once_give_every_index_once(ledger: Ledger):
    done = threading.Event()

    def write():
        for _ in range(60):
            ledger.record(1)

    def sequence():
        sequencer = ledger.make_sequencer(batch=7)
        total = 0
        while not done.is_set() or sequencer.step().more:
            total += sequencer.step().sequenced
        return total

    with ThreadPoolExecutor(5) as pool:
        sequencers = [pool.submit(sequence) for _ in range(2)]
        writers = [pool.submit(write) for _ in range(3)]
        for writer in writers:
            writer.result()
        done.set()
        for sequencer in sequencers:
            sequencer.result()
    while ledger.sequencer.step().more:
        pass
    assert [leaf.index for leaf in sequenced(ledger)] == list(range(180))
    report = ledger.verify()
    assert report.ok, report.findings
    assert report.unsequenced == 0


# --- telemetry -------------------------------------------------------------------------------------------------------


def send(ledger: Ledger, request: Invite, principal: str = "a" * 32, subject: str = "") -> None:
    ledger.database.write(
        lambda work: count(
            work,
            operation=operation(Record.TELEMETRY, "runs.log"),
            content=without_secrets(request),
            subject=subject,
            identity=identity(principal),
            project=PROJECT,
            now=ledger.clock.now(),
        )
    )


def test_telemetry_leaves_one_leaf_per_window_with_count_and_digest(ledger: Ledger):
    requests = [Invite(name=str(number), note="personal", password="secret") for number in range(5)]
    for request in requests:
        send(ledger, request)
    send(ledger, Invite(), principal="c" * 32)
    assert ledger.sequencer.step().windows == 0
    ledger.clock.pass_seconds(11)
    step = ledger.sequencer.step()
    assert (step.windows, step.sequenced) == (2, 2)
    stored = sequenced(ledger)[0]
    leaf = stored.readable()
    assert (leaf.facts["count"], leaf.principal, leaf.project, leaf.record) == (5, "a" * 32, PROJECT, "telemetry")
    digest = ledger.database.read(lambda work: store.salts_of(work, leaf.id))[SEED]
    for request in requests:
        digest = chained(digest, without_secrets(request))
    assert leaf.facts["digest"] == digest.hex()
    assert ledger.verify().ok


def test_after_a_window_closed_the_next_call_opens_another(ledger: Ledger):
    for _ in range(2):
        send(ledger, Invite())
        ledger.clock.pass_seconds(11)
        assert ledger.sequencer.step().windows == 1
    assert [leaf.readable().facts["count"] for leaf in sequenced(ledger)] == [1, 1]


def test_all_windows_can_be_closed_at_an_orderly_end(ledger: Ledger):
    send(ledger, Invite())
    assert ledger.sequencer.step(close_all_windows=True).windows == 1


def test_each_subject_has_a_leaf_of_its_own(ledger: Ledger):
    for subject in ("one", "two", "one"):
        send(ledger, Invite(), subject=subject)
    assert ledger.sequencer.step(close_all_windows=True).windows == 2
    assert {(leaf.readable().facts["subject"], leaf.readable().facts["count"]) for leaf in sequenced(ledger)} == {
        ("one", 2),
        ("two", 1),
    }


def test_secrets_do_not_change_a_telemetry_digest():
    assert without_secrets(Invite(password="a")) == without_secrets(Invite(password="b"))
    assert without_secrets(Invite(note="a")) != without_secrets(Invite(note="b"))
    assert without_secrets(Invite(members=(Member(email="a", role="r"),))) != without_secrets(Invite())


def test_concurrent_telemetry_counts_every_call(ledger: Ledger):
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(send, ledger, Invite(name=str(number))) for number in range(60)]
        ledger.sequencer.step(close_all_windows=True)
        for future in futures:
            future.result()
    ledger.sequencer.step(close_all_windows=True)
    assert sum(decode(leaf.record).facts["count"] for leaf in sequenced(ledger)) == 60
    assert ledger.verify().ok


class Died(BaseException):
    pass


def _die(name):
    raise Died(name)


def test_the_copy_is_json_lines(ledger: Ledger):
    [head] = ledger.grow(2)
    assert [json.loads(line) for line in ledger.copy_file.read_text().splitlines()] == [head.document()]
