"""Every way of tampering is found and named; an untouched ledger has nothing to say."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from falaj.base.encoding import canonical
from falaj.governance.ledger import store
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.operations import VerifyLedger
from falaj.governance.ledger.queries import StoredLedger
from falaj.governance.ledger.reports import Report
from falaj.governance.ledger.signatures import sign_head
from falaj.governance.ledger.trees import Frontier, leaf_hash
from falaj.governance.ledger.verification import verify
from tests.governance.ledger.conftest import KeySigner, Ledger


def only(report: Report, name: str):
    assert [finding.name for finding in report.findings] == [name], report.findings
    return report.findings[0]


def forge(ledger: Ledger, index: int) -> bytes:
    """Change who did it, in a well-formed way."""
    record = json.loads(bytes(ledger.sql("SELECT record FROM ledger_leaves WHERE position = :i", i=index)[0].record))
    record["zone"] = "somewhere else"
    return canonical(record)


def change_leaf(ledger: Ledger, index: int) -> bytes:
    record = forge(ledger, index)
    ledger.sql("UPDATE ledger_leaves SET record = :record WHERE position = :i", record=record, i=index)
    return record


def rewrite_nodes(ledger: Ledger) -> Frontier:
    """Make all stored nodes agree with the leaves as they now are."""
    frontier = Frontier()
    ledger.sql("DELETE FROM ledger_nodes")
    for row in ledger.sql("SELECT record FROM ledger_leaves WHERE position IS NOT NULL ORDER BY position"):
        for (level, position), node in frontier.add(leaf_hash(bytes(row.record))):
            ledger.sql("INSERT INTO ledger_nodes (level, position, hash) VALUES (:l, :p, :h)", l=level, p=position, h=node)
    return frontier


def store_head(ledger: Ledger, head: Head) -> None:
    ledger.sql(
        "UPDATE ledger_heads SET root = :root, previous = :previous, signature = :signature, key = :key, at = :at"
        " WHERE size = :size",
        **head.document() | {"at": int(head.at)},
    )


def test_an_untouched_ledger_verifies(ledger: Ledger):
    ledger.grow(5, 1, 9, 30)
    ledger.record(3)
    report = ledger.verify()
    assert report.ok, report.findings
    assert (report.leaves, report.heads, report.copies, report.unsequenced) == (45, 4, 1, 3)
    assert report.oldest_unsequenced is not None
    assert report.notes == ()


def test_an_empty_ledger_verifies(ledger: Ledger):
    assert ledger.verify().ok


@pytest.mark.parametrize("index", [0, 6, 11])
def test_a_changed_leaf_is_named(ledger: Ledger, index):
    ledger.grow(5, 4, 3)
    change_leaf(ledger, index)
    finding = only(ledger.verify(), "leaf-changed")
    assert (finding.first, finding.last) == (index, index)


def test_a_leaf_spoiled_beyond_reading_is_named(ledger: Ledger):
    ledger.grow(5)
    ledger.sql("UPDATE ledger_leaves SET record = :record WHERE position = 2", record=b"\xff{")
    assert only(ledger.verify(), "leaf-changed").first == 2


@pytest.mark.parametrize("index", [0, 4, 10])
def test_a_removed_leaf_is_named(ledger: Ledger, index):
    ledger.grow(5, 4, 3)
    ledger.sql("DELETE FROM ledger_leaves WHERE position = :i", i=index)
    assert only(ledger.verify(), "leaf-removed").first == index


def test_a_leaf_removed_with_its_hash_is_named(ledger: Ledger):
    ledger.grow(5, 4)
    ledger.sql("DELETE FROM ledger_leaves WHERE position = 3")
    ledger.sql("DELETE FROM ledger_nodes WHERE level = 0 AND position = 3")
    assert only(ledger.verify(), "leaf-removed").first == 3


def test_two_swapped_leaves_are_named(ledger: Ledger):
    ledger.grow(5, 4, 3)
    ledger.sql("UPDATE ledger_leaves SET position = -1 WHERE position = 2")
    ledger.sql("UPDATE ledger_leaves SET position = 2 WHERE position = 7")
    ledger.sql("UPDATE ledger_leaves SET position = 7 WHERE position = -1")
    finding = only(ledger.verify(), "leaves-reordered")
    assert (finding.first, finding.last) == (2, 7)
    assert "Leaves 2 and 7" in finding.message


def test_a_removed_leaf_whose_gap_was_closed_is_named(ledger: Ledger):
    ledger.grow(5, 4)
    ledger.sql("DELETE FROM ledger_leaves WHERE position = 3")
    for index in range(4, 9):
        ledger.sql("UPDATE ledger_leaves SET position = :new WHERE position = :old", new=index - 1, old=index)
    findings = {str(finding.name): finding for finding in ledger.verify().findings}
    assert set(findings) == {"leaf-removed", "leaves-reordered", "log-truncated"}
    assert findings["leaf-removed"].first == 3
    assert "signed at 4 to 8 now stands 1 earlier" in findings["leaves-reordered"].message


def test_a_leaf_put_back_among_the_waiting_is_missed(ledger: Ledger):
    ledger.grow(5)
    ledger.sql("UPDATE ledger_leaves SET position = NULL WHERE position = 2")
    report = ledger.verify()
    assert only(report, "leaf-removed").first == 2
    assert report.unsequenced == 1


def test_a_truncated_log_is_named_with_the_head_that_covers_more(ledger: Ledger):
    heads = ledger.grow(5, 4, 3)
    ledger.sql("DELETE FROM ledger_leaves WHERE position >= 7")
    finding = only(ledger.verify(), "log-truncated")
    assert (finding.first, finding.last, finding.at) == (7, 11, heads[-1].at)
    assert "it has 7 leaves" in finding.message


def test_a_database_set_back_to_an_earlier_state_is_found_by_the_copies(ledger: Ledger):
    heads = ledger.grow(4, 4)
    ledger.sql("DELETE FROM ledger_heads WHERE size = 8")
    ledger.sql("DELETE FROM ledger_leaves WHERE position >= 4")
    rewrite_nodes(ledger)
    findings = {str(finding.name): finding for finding in ledger.verify().findings}
    assert set(findings) == {"head-rolled-back", "log-truncated"}
    assert findings["head-rolled-back"].at == heads[1].at


def test_a_rollback_of_database_and_copies_is_found_by_a_head_that_was_kept(ledger: Ledger):
    heads = ledger.grow(4, 4)
    ledger.sql("DELETE FROM ledger_heads WHERE size = 8")
    ledger.sql("DELETE FROM ledger_leaves WHERE position >= 4")
    rewrite_nodes(ledger)
    ledger.copy_file.write_bytes(ledger.copy_file.read_bytes().splitlines(keepends=True)[0])
    assert ledger.verify().ok
    assert ledger.verify(expected=heads[0]).ok
    assert ledger.names(expected=heads[1]) == {"head-rolled-back", "log-truncated"}


def test_a_leaf_changed_together_with_all_nodes_is_found_by_the_earliest_head(ledger: Ledger):
    heads = ledger.grow(5, 4, 3)
    change_leaf(ledger, 6)
    rewrite_nodes(ledger)
    finding = only(ledger.verify(), "history-rewritten")
    assert (finding.first, finding.last, finding.at) == (5, 8, heads[1].at)


def test_a_leaf_changed_together_with_its_own_hash_is_pinned_down(ledger: Ledger):
    ledger.grow(16)
    record = change_leaf(ledger, 6)
    ledger.sql("UPDATE ledger_nodes SET hash = :h WHERE level = 0 AND position = 6", h=leaf_hash(record))
    finding = only(ledger.verify(), "history-rewritten")
    assert (finding.first, finding.last) == (6, 7)


def test_a_history_signed_anew_is_contradicted_by_the_copies(ledger: Ledger):
    """The attacker has even the signing key."""
    heads = ledger.grow(5)
    change_leaf(ledger, 1)
    frontier = rewrite_nodes(ledger)
    store_head(ledger, sign_head(ledger.signer, size=5, root=frontier.root(), at=heads[0].at, previous=None))
    assert ledger.names() == {"head-contradicted", "history-rewritten"}


def test_a_history_signed_anew_everywhere_is_contradicted_by_a_head_that_was_kept(ledger: Ledger):
    heads = ledger.grow(5)
    change_leaf(ledger, 1)
    frontier = rewrite_nodes(ledger)
    forged = sign_head(ledger.signer, size=5, root=frontier.root(), at=heads[0].at, previous=None)
    store_head(ledger, forged)
    ledger.copy_file.write_bytes(canonical(forged.document()) + b"\n")
    assert ledger.verify().ok
    assert ledger.names(expected=heads[0]) == {"head-contradicted", "history-rewritten"}


def test_a_head_signed_with_an_unknown_key_is_forged(ledger: Ledger):
    heads = ledger.grow(5)
    change_leaf(ledger, 1)
    frontier = rewrite_nodes(ledger)
    store_head(ledger, sign_head(KeySigner("key-2"), size=5, root=frontier.root(), at=heads[0].at, previous=None))
    report = ledger.verify()
    assert {str(finding.name) for finding in report.findings} == {"head-forged", "history-rewritten"}
    assert "nobody vouches for its key 'key-2'" in report.findings[0].message


def test_a_head_with_a_changed_root_is_forged(ledger: Ledger):
    ledger.grow(5, 5)
    ledger.sql("UPDATE ledger_heads SET root = :root WHERE size = 5", root="00" * 32)
    assert "signature does not hold" in only(ledger.verify(), "head-forged").message


def test_a_removed_head_is_named(ledger: Ledger):
    ledger.grow(5, 5, 5)
    ledger.sql("DELETE FROM ledger_heads WHERE size = 10")
    report = ledger.verify()
    assert {str(finding.name) for finding in report.findings} == {"head-missing"}
    assert any("after the one of 5 leaves" in finding.message for finding in report.findings)
    assert any("10 leaves" in finding.message and "not in the database" in finding.message for finding in report.findings)


def test_a_handed_in_head_that_the_database_lacks_is_named(ledger: Ledger):
    heads = ledger.grow(5, 5)
    ledger.sql("DELETE FROM ledger_heads WHERE size = 5")
    ledger.copy_file.unlink()
    assert ledger.names(expected=heads[0]) == {"head-missing"}


def test_a_forged_handed_in_head_is_refused(ledger: Ledger):
    heads = ledger.grow(5)
    forged = sign_head(KeySigner(), size=5, root=bytes(32), at=heads[0].at, previous=None)
    assert ledger.names(expected=forged) == {"head-forged"}


def test_an_altered_line_in_a_copy_is_named(ledger: Ledger):
    ledger.grow(5, 5, 5)
    lines = ledger.copy_file.read_text().splitlines()
    spoiled = json.loads(lines[1]) | {"root": "00" * 32}
    ledger.copy_file.write_text("\n".join([lines[0], json.dumps(spoiled), lines[2]]) + "\n")
    assert "Line 2" in only(ledger.verify(), "copy-altered").message


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"size": "5"}', "x" * 10_000])
def test_a_line_in_a_copy_that_is_no_head_is_named(ledger: Ledger, line):
    ledger.grow(5, 5)
    lines = ledger.copy_file.read_text().splitlines()
    ledger.copy_file.write_text("\n".join([lines[0], line, lines[1]]) + "\n")
    assert ledger.names() == {"copy-altered"}


def test_swapped_lines_in_a_copy_are_named(ledger: Ledger):
    ledger.grow(5, 5, 5)
    lines = ledger.copy_file.read_text().splitlines()
    ledger.copy_file.write_text("\n".join([lines[1], lines[0], lines[2]]) + "\n")
    assert "copy-altered" in ledger.names()


def test_a_line_removed_from_a_copy_is_named(ledger: Ledger):
    ledger.grow(5, 5, 5)
    lines = ledger.copy_file.read_text().splitlines()
    ledger.copy_file.write_text("\n".join([lines[0], lines[2]]) + "\n")
    assert "10 leaves" in only(ledger.verify(), "copy-incomplete").message


def test_a_copy_that_lags_is_noted_and_not_blamed(ledger: Ledger):
    ledger.grow(5, 5)
    ledger.copy_file.write_bytes(ledger.copy_file.read_bytes().splitlines(keepends=True)[0])
    report = ledger.verify()
    assert report.ok
    assert "10 leaves" in report.notes[0]


@pytest.mark.parametrize("level", [0, 1, 3])
def test_a_changed_node_is_named_and_the_leaves_are_not_blamed(ledger: Ledger, level):
    ledger.grow(16, 4)
    ledger.sql("UPDATE ledger_nodes SET hash = :h WHERE level = :l AND position = 1", h=bytes(32), l=level)
    finding = only(ledger.verify(), "node-changed")
    assert (finding.first, finding.last) == (1 << level, (2 << level) - 1)


@pytest.mark.parametrize("level", [0, 1, 3])
def test_a_removed_node_is_named(ledger: Ledger, level):
    ledger.grow(16, 4)
    ledger.sql("DELETE FROM ledger_nodes WHERE level = :l AND position = 1", l=level)
    assert only(ledger.verify(), "node-changed").first == 1 << level


@pytest.mark.parametrize(
    ("column", "changed"), [("project", "f" * 32), ("principal", ""), ("outcome", "refused"), ("inserted", 5)]
)
def test_a_leaf_hidden_from_listings_by_its_columns_is_named(ledger: Ledger, column, changed):
    ledger.grow(5)
    ledger.sql(f"UPDATE ledger_leaves SET {column} = :changed WHERE position = 3", changed=changed)
    assert only(ledger.verify(), "columns-changed").first == 3


def test_a_leaf_smuggled_in_behind_the_last_head_is_named(ledger: Ledger):
    ledger.grow(5)
    [leaf] = ledger.record(1)
    ledger.sql("UPDATE ledger_leaves SET position = 5 WHERE id = :id", id=leaf)
    assert only(ledger.verify(), "leaf-unsigned").first == 5


def test_damage_after_other_damage_is_still_found(ledger: Ledger):
    ledger.grow(5, 5, 5, 5)
    change_leaf(ledger, 2)
    ledger.sql("DELETE FROM ledger_leaves WHERE position = 8")
    ledger.sql("UPDATE ledger_nodes SET hash = :h WHERE level = 0 AND position = 12", h=bytes(32))
    found = {(str(finding.name), finding.first) for finding in ledger.verify().findings}
    assert found == {("leaf-changed", 2), ("leaf-removed", 8), ("node-changed", 12)}


def test_a_head_signed_while_verification_runs_is_not_taken_for_a_rollback(ledger: Ledger):
    ledger.grow(5)
    late: list[Head] = []

    def verify_while_growing(work):
        ledger_then = StoredLedger(work)
        assert ledger_then.extent() == 5  # the snapshot is taken
        with ThreadPoolExecutor(1) as pool:
            late.extend(pool.submit(ledger.grow, 2).result())
        return verify(
            ledger_then,
            keys=ledger.keys,
            copies=ledger.copies.files,
            arrived=lambda head: ledger.database.read(lambda now: store.head_of_size(now, head.size)) == head,
            expected=late[0],
        )

    report = ledger.database.read(verify_while_growing)
    assert report.ok, report.findings
    assert (report.leaves, late[0].size) == (5, 7)


def test_verification_as_an_operation_passes_while_the_sequencer_works(ledger: Ledger):
    with ThreadPoolExecutor(1) as pool:
        growing = pool.submit(ledger.grow, *[3] * 30)
        while not growing.done():
            report = ledger.look(ledger.service.verify, VerifyLedger())
            assert report.ok, report.findings
    assert ledger.look(ledger.service.verify, VerifyLedger()).leaves == 90
