"""The auditor's questions and their answers, and the export that needs no database."""

import json
from pathlib import Path

import pytest

from falaj.base.caller import ProjectFacts
from falaj.base.encoding import canonical
from falaj.base.errors import Invalid, NotFound, Unavailable
from falaj.base.ids import ProjectId
from falaj.base.operation import Group, Record
from falaj.governance.ledger import operations as ops
from falaj.governance.ledger import store
from falaj.governance.ledger.offline import verify_export
from falaj.governance.ledger.trees import grew, includes, leaf_hash
from tests.governance.ledger.conftest import PRINCIPAL, PROJECT, Invite, Ledger, identity, operation


def ids(page: ops.LogPage) -> list[str]:
    return [entry.id for entry in page.items]


def every_page(ledger: Ledger, **wishes) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = ledger.ask(ledger.service.log, ops.ReadLog(cursor=cursor, **wishes))
        found += ids(page)
        if not (cursor := page.next):
            return found


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_pages_hold_every_leaf_once_in_either_order(ledger: Ledger, limit):
    written = ledger.record(10)
    assert every_page(ledger, limit=limit, order="oldest-first") == written
    assert every_page(ledger, limit=limit) == written[::-1]


def test_a_listing_shows_a_leaf_at_once_and_its_index_later(ledger: Ledger):
    ledger.record(1)
    assert ledger.ask(ledger.service.log, ops.ReadLog()).items[0].index is None
    ledger.sequencer.step()
    assert ledger.ask(ledger.service.log, ops.ReadLog()).items[0].index == 0


def test_leaves_are_found_by_what_they_say(ledger: Ledger):
    [plain] = ledger.record(1)
    since = ledger.clock.now()
    [other] = ledger.record(1, operation=operation(name="people.remove"), project=PROJECT)
    until = ledger.clock.now()
    [refused] = ledger.record(1, identity=identity("e" * 32), outcome="refused", rule="residency")

    def found(**wishes):
        return ids(ledger.ask(ledger.service.log, ops.ReadLog(order="oldest-first", **wishes)))

    assert found(project=PROJECT) == [other]
    assert found(operation="people.invite") == [plain, refused]
    assert found(principal=PRINCIPAL) == [plain, other]
    assert found(outcome="refused") == [refused]
    assert found(outcome="done", principal=PRINCIPAL, project=PROJECT) == [other]
    assert found(since=since) == [other, refused]
    assert found(until=until) == [plain, other]
    assert found(since=since, until=until) == [other]
    assert ledger.ask(ledger.service.log, ops.ReadLog(outcome="refused")).items[0].rule == "residency"


def test_a_project_sees_its_own_leaves_alone(ledger: Ledger):
    ledger.record(2)
    mine = ledger.record(2, project=PROJECT)
    ledger.record(2, project="f" * 32)
    project = ProjectFacts(id=ProjectId(PROJECT), name="mine", places=())
    page = ledger.ask(ledger.service.log_project, ops.ReadProjectLog(project="mine"), project)
    assert sorted(ids(page)) == sorted(mine)


def test_a_strange_cursor_is_refused(ledger: Ledger):
    with pytest.raises(Invalid, match="cursor"):
        ledger.ask(ledger.service.log, ops.ReadLog(cursor="zzz"))


def test_a_spoiled_record_does_not_break_a_listing(ledger: Ledger):
    ledger.grow(3)
    ledger.sql("UPDATE ledger_leaves SET record = :r WHERE position = 1", r=b"\xff")
    assert [entry.record for entry in ledger.ask(ledger.service.log, ops.ReadLog()).items] == ["change", "unreadable", "change"]
    assert len(ledger.ask(ledger.service.follow, ops.FollowLog()).items) == 3


def test_the_head_states_what_is_not_yet_under_it(ledger: Ledger):
    [head] = ledger.grow(3)
    ledger.record(2)
    state = ledger.ask(ledger.service.head, ops.ReadHead())
    assert (state.head, state.unsequenced) == (head, 2)
    assert state.oldest_unsequenced < ledger.clock.now()
    assert state.keys == {"key-1": ledger.signer.public.hex()}


@pytest.mark.parametrize("index", [0, 4, 8])
def test_a_proof_shows_that_a_leaf_is_under_the_newest_head(ledger: Ledger, index):
    ledger.grow(5, 4)
    by_index = ledger.ask(ledger.service.prove, ops.ProveLeaf(index=index))
    by_id = ledger.ask(ledger.service.prove, ops.ProveLeaf(leaf=json.loads(by_index.record)["id"]))
    assert by_index == by_id
    path = [bytes.fromhex(node) for node in by_id.path]
    assert includes(bytes.fromhex(by_id.head.root), 9, leaf_hash(by_id.record.encode()), index, path)


def test_what_cannot_be_proved_is_said(ledger: Ledger):
    ledger.grow(2)
    [waiting] = ledger.record(1)
    with pytest.raises(Unavailable, match="not yet sequenced"):
        ledger.ask(ledger.service.prove, ops.ProveLeaf(leaf=waiting))
    with pytest.raises(NotFound):
        ledger.ask(ledger.service.prove, ops.ProveLeaf(index=99))
    for request in (ops.ProveLeaf(), ops.ProveLeaf(leaf=waiting, index=1)):
        with pytest.raises(Invalid):
            ledger.ask(ledger.service.prove, request)


def test_growth_between_any_two_heads_can_be_proved(ledger: Ledger):
    heads = ledger.grow(3, 4, 6)
    for old in heads:
        for new in heads:
            request = ops.ProveGrowth(old=old.size, new=new.size)
            if old.size > new.size:
                with pytest.raises(Invalid):
                    ledger.ask(ledger.service.prove_growth, request)
                continue
            proof = ledger.ask(ledger.service.prove_growth, request)
            path = [bytes.fromhex(node) for node in proof.path]
            assert grew(bytes.fromhex(old.root), old.size, bytes.fromhex(new.root), new.size, path)


def test_a_time_resolves_to_what_was_sequenced_then_and_what_was_not(ledger: Ledger):
    before = ledger.clock.now()
    [first] = ledger.grow(3)
    ledger.record(2)
    between = ledger.clock.now()
    [second] = ledger.grow(1)
    ledger.record(1)
    now = ledger.clock.now()

    def state(at):
        found = ledger.ask(ledger.service.as_of, ops.ReadAsOf(at=at))
        return found.size, found.head, found.covered_by, found.unsequenced

    assert state(before) == (0, None, first, 0)
    assert state(first.at) == (3, first, second, 0)
    assert state(between) == (3, first, second, 2)
    assert state(now) == (6, second, None, 1)


def test_following_gives_every_sequenced_leaf_once_in_order(ledger: Ledger):
    written: list[str] = []
    seen: list[str] = []
    after = -1
    for count in (3, 0, 5):
        written += ledger.record(count)
        ledger.sequencer.step()
        page = ledger.ask(ledger.service.follow, ops.FollowLog(after=after, limit=4))
        seen += [item["id"] for item in page.items]
        after = page.after
    page = ledger.ask(ledger.service.follow, ops.FollowLog(after=after))
    assert seen + [item["id"] for item in page.items] == written
    assert ledger.ask(ledger.service.follow, ops.FollowLog(after=page.after)).after == page.after


def test_following_is_not_recorded_or_it_would_follow_itself():
    assert ops.FOLLOW.record is Record.PLAIN_READ


def test_every_operation_of_auditors_needs_audit_and_erasing_needs_an_administrator(ledger: Ledger):
    groups = {bound.operation.name: bound.operation.permission.group for bound in ledger.service.bindings()}
    assert groups.pop("audit.erase-salts") is Group.ADMINISTER
    assert set(groups.values()) == {Group.AUDIT}


def test_leaves_leave_as_cloudevents(ledger: Ledger):
    [leaf] = ledger.record(1, project=PROJECT)
    ledger.sequencer.step()
    [event] = ledger.ask(ledger.service.follow, ops.FollowLog(format="cloudevents")).items
    assert event["specversion"] == "1.0"
    assert (event["id"], event["type"], event["source"]) == (leaf, "falaj.people.invite.done", f"/falaj/projects/{PROJECT}")
    assert event["sequence"] == "0".zfill(20)
    assert event["data"]["id"] == leaf


def test_verification_runs_as_an_operation(ledger: Ledger):
    heads = ledger.grow(3, 4)
    assert ledger.ask(ledger.service.verify, ops.VerifyLedger(expected=heads[0])).ok
    ledger.sql("DELETE FROM ledger_leaves WHERE position = 1")
    assert not ledger.ask(ledger.service.verify, ops.VerifyLedger()).ok


def test_erasing_says_whose(ledger: Ledger):
    [leaf] = ledger.record(1, request=Invite(note="private"))
    for wrong in (ops.EraseSalts(), ops.EraseSalts(leaf=leaf, principal=PRINCIPAL)):
        with pytest.raises(Invalid):
            ledger.ask(ledger.service.erase_salts, wrong)
    assert ledger.ask(ledger.service.erase_salts, ops.EraseSalts(leaf=leaf)).erased == 1


# --- the export ------------------------------------------------------------------------------------------------------


def export(ledger: Ledger, tmp_path: Path, **wishes) -> Path:
    download = ledger.ask(ledger.service.export, ops.ExportLedger(**wishes))
    file = tmp_path / download.name
    file.write_bytes(b"".join(download.chunks))
    return file


def edit(file: Path, change) -> Path:
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    change(lines)
    file.write_bytes(b"".join(canonical(line) + b"\n" for line in lines))
    return file


@pytest.fixture
def exported(ledger: Ledger, tmp_path: Path) -> Path:
    """Lines: 0 the header, 1 to 3 heads over 5, 9 and 12 leaves, 4 and on the leaves."""
    ledger.grow(5, 4, 3)
    ledger.record(2)
    return export(ledger, tmp_path)


def names(file: Path, **options) -> set[str]:
    return {str(finding.name) for finding in verify_export(file, **options).findings}


def test_an_export_verifies_without_a_database(ledger: Ledger, exported: Path):
    report = verify_export(exported, keys=ledger.keys)
    assert report.ok, report.findings
    assert (report.leaves, report.heads, report.notes) == (12, 3, ())


def test_an_export_verified_by_its_own_keys_says_so(exported: Path):
    report = verify_export(exported)
    assert report.ok
    assert "keys were taken from the file" in report.notes[0]


def test_an_empty_ledger_can_be_exported(ledger: Ledger, tmp_path: Path):
    assert verify_export(export(ledger, tmp_path)).ok


def test_a_changed_leaf_in_an_export_is_named(exported: Path):
    edit(exported, lambda lines: lines[9]["leaf"].update(zone="elsewhere"))
    [finding] = verify_export(exported).findings
    assert (finding.name, finding.first) == ("leaf-changed", 5)


def test_a_leaf_changed_with_its_hash_in_an_export_is_found(exported: Path):
    def change(lines):
        lines[9]["leaf"]["zone"] = "elsewhere"
        lines[9]["hash"] = leaf_hash(canonical(lines[9]["leaf"])).hex()

    [finding] = verify_export(edit(exported, change)).findings
    assert (finding.name, finding.first, finding.last) == ("history-rewritten", 5, 8)


def test_a_removed_leaf_in_an_export_is_named(exported: Path):
    edit(exported, lambda lines: lines.pop(6))
    [finding] = verify_export(exported).findings
    assert (finding.name, finding.first) == ("leaf-removed", 2)


def test_swapped_leaves_in_an_export_are_named(exported: Path):
    def change(lines):
        lines[5]["leaf"], lines[8]["leaf"] = lines[8]["leaf"], lines[5]["leaf"]

    [finding] = verify_export(edit(exported, change)).findings
    assert (finding.name, finding.first, finding.last) == ("leaves-reordered", 1, 4)


def test_a_truncated_export_is_named(exported: Path):
    edit(exported, lambda lines: lines.__delitem__(slice(-3, None)))
    [finding] = verify_export(exported).findings
    assert (finding.name, finding.first) == ("log-truncated", 9)


def test_an_export_cut_with_its_heads_is_found_by_a_head_that_was_kept(ledger: Ledger, exported: Path):
    newest = ledger.database.read(store.newest_head)

    def change(lines):
        del lines[-3:]
        del lines[3]

    assert names(edit(exported, change)) == set()
    assert names(exported, expected=newest) == {"head-rolled-back", "log-truncated"}


def test_a_forged_head_and_a_missing_head_in_an_export_are_named(exported: Path):
    edit(exported, lambda lines: lines[2]["head"].update(root="00" * 32))
    assert names(exported) == {"head-forged"}
    edit(exported, lambda lines: lines.pop(2))
    assert names(exported) == {"head-missing"}


def test_leaves_added_to_an_export_are_named(exported: Path):
    edit(exported, lambda lines: lines.append(lines[-1] | {"index": 12}))
    [finding] = verify_export(exported).findings
    assert (finding.name, finding.first) == ("leaf-unsigned", 12)


@pytest.mark.parametrize(
    "line", [b"nonsense", b"[]", b"[" * 100_000, b'{"index":7}', b'{"index":7,"leaf":NaN,"hash":""}', b"\xff"]
)
def test_a_damaged_line_in_an_export_is_named(exported: Path, line):
    lines = exported.read_bytes().splitlines()
    exported.write_bytes(b"\n".join([*lines[:8], line, *lines[8:]]) + b"\n")
    assert names(exported) == {"export-damaged"}


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"format":"falaj-ledger-export/1"}\n', b"\x00\x01"])
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(Invalid):
        verify_export(file)


def test_an_export_as_cloudevents_holds_every_leaf(ledger: Ledger, tmp_path: Path):
    ledger.grow(3, 4)
    events = [json.loads(line) for line in export(ledger, tmp_path, format="cloudevents").read_text().splitlines()]
    assert [int(event["sequence"]) for event in events] == list(range(7))


def test_the_export_of_a_tampered_ledger_tells_on_it(ledger: Ledger, tmp_path: Path):
    ledger.grow(5)
    ledger.sql("UPDATE ledger_leaves SET record = :r WHERE position = 1", r=b'{"zone":NaN}')
    ledger.sql("UPDATE ledger_leaves SET record = :r WHERE position = 3", r=b"\xff")
    assert [finding.first for finding in verify_export(export(ledger, tmp_path)).findings] == [1, 3]
