"""What happened lately in a project, on both databases."""

from typing import Any

import pytest

from falaj.base.errors import Forbidden, NotFound
from falaj.base.operation import Record, Scope
from falaj.collaboration import activity
from falaj.collaboration.operations import OPERATIONS
from falaj.collaboration.operations.words import Thing
from falaj.collaboration.sentences import in_the_past, sentence
from falaj.governance.identity import member_operations as members
from falaj.governance.ledger.store import leaves
from falaj.governance.operations import OPERATIONS as GOVERNANCE
from falaj.governance.roles import Role
from tests.collaboration.team import PEEK, PING, Team, run_id


def told(page: Any) -> list[tuple[str, str, str]]:
    """Who did what to which, newest first."""
    return [(item.by.name, item.did, item.thing.label if item.thing else "") for item in page.items]


def test_what_was_done_is_told_newest_first_with_who_and_what(team: Team) -> None:
    team.amal.touch(team.run)
    asked = team.amal.ask("badr", team.run)
    team.badr.answer(asked.id, "approve")
    said = team.badr.comment("well done", team.run)
    team.badr.edit(said.id, "very well done")
    feed = team.omar.feed(limit=5)
    assert told(feed) == [
        ("badr", "changed a comment", "first"),
        ("badr", "commented", "first"),
        ("badr", "answered a review", "first"),
        ("amal", "asked for a review", "first"),
        ("amal", "touched a run", "first"),
    ]
    assert feed.items[0].thing == Thing(kind="run", id=team.run, label="first")
    assert [item.at for item in feed.items] == sorted((item.at for item in feed.items), reverse=True)


def test_reads_telemetry_and_refusals_are_not_told(team: Team) -> None:
    before = team.omar.feed()
    for operation in (PEEK, PING):
        team.amal.touch(team.run, operation)
    with pytest.raises(Forbidden):
        team.omar.comment("no", team.run)
    team.badr.mark_read()
    team.omar.feed()
    assert team.omar.feed() == before


def test_of_what_is_administered_only_the_sentence_is_told(team: Team) -> None:
    request = members.AddMember(project="alpha", member="mallory", role=Role.VIEWER)
    team.owner.call(members.ADD_MEMBER, request)
    item = team.omar.feed(limit=1).items[0]
    assert (item.by.name, item.did, item.thing) == ("owner", "gave somebody a role in a project", None)
    team.dina.remove(team.amal.comment("rude", team.run).id)
    item = team.omar.feed(limit=1).items[0]
    assert (item.did, item.thing) == ("removed a comment", None)


def test_the_same_in_a_row_is_told_once_with_how_often(team: Team) -> None:
    other = team.make("run", run_id("other"), "other")
    for run in (team.run, team.run, team.run, other, team.run):
        team.amal.touch(run)
    team.badr.touch(team.run)
    feed = team.omar.feed(limit=4)
    assert [(item.by.name, item.thing.label, item.times) for item in feed.items if item.thing] == [
        ("badr", "first", 1),
        ("amal", "first", 1),
        ("amal", "other", 1),
        ("amal", "first", 3),
    ]


def test_pages_join_without_a_gap_or_a_repeat(team: Team) -> None:
    runs = [team.make("run", run_id(str(number)), f"run {number}") for number in range(7)]
    for run in runs:
        team.amal.touch(run)
        team.amal.touch(run)
        team.amal.touch(run, PEEK)
    found: list[str] = []
    cursor = ""
    while True:
        page = team.omar.feed(limit=3, cursor=cursor)
        found += [item.thing.label for item in page.items if item.thing]
        assert all(item.times == 2 for item in page.items if item.thing)
        if not (cursor := page.next):
            break
    assert found == [f"run {number}" for number in range(6, -1, -1)]


def test_a_project_that_was_only_read_lately_is_paged_through(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "BATCH", 4)
    monkeypatch.setattr(activity, "MOST_LOOKED_AT", 8)
    team.amal.touch(team.run)
    for _ in range(20):
        team.amal.touch(team.run, PEEK)
    pages = [team.omar.feed()]
    while not pages[-1].items:
        assert pages[-1].next
        pages.append(team.omar.feed(cursor=pages[-1].next))
    assert len(pages) == 3
    assert told(pages[-1])[0] == ("amal", "touched a run", "first")


def test_another_projects_life_is_not_told(team: Team) -> None:
    own = team.make("run", run_id("theirs"), "theirs", "beta")
    team.amal.touch(team.run)
    team.mallory.touch(own, project="beta")
    assert "first" not in {label for _, _, label in told(team.mallory.feed(project="beta"))}
    assert "theirs" not in {label for _, _, label in told(team.omar.feed())}
    with pytest.raises(NotFound):
        team.mallory.feed()


def test_a_cursor_of_another_project_shows_nothing_of_it(team: Team) -> None:
    for name in ("a", "b", "c"):
        team.amal.touch(team.make("run", run_id(name), name))
    cursor = team.omar.feed(limit=1).next
    own = told(team.mallory.feed(project="beta"))
    assert set(told(team.mallory.feed(project="beta", cursor=cursor))) <= set(own)


def test_an_erased_person_is_told_of_by_id_alone(team: Team) -> None:
    team.badr.touch(team.run)
    team.erase("badr")
    [item] = [item for item in team.omar.feed().items if item.operation == "sample.touch"]
    assert (item.by.id, item.by.name, item.by.display) == (team.badr.id, "", "")


def test_a_spoiled_record_does_not_break_the_feed(small_team: Team) -> None:
    small_team.amal.touch(small_team.run)
    small_team.database.write(lambda work: work.execute(leaves.update().values(record=b"spoiled")).rowcount)
    feed = small_team.omar.feed()
    assert ("amal", "touched a run", "") in told(feed)


@pytest.mark.parametrize(
    ("summary", "past"),
    [
        ("Create an experiment.", "created an experiment"),
        ("Give an experiment another name.", "gave an experiment another name"),
        ("Hide a run; restoring brings it back.", "hid a run"),
        ("Copy a thing, slowly", "copied a thing"),
        ("Destroy a blob", "destroyed a blob"),
        ("Archive a project: nothing new happens in it.", "archived a project"),
        ("Start", "started"),
    ],
)
def test_a_summary_is_told_as_something_that_happened(summary: str, past: str) -> None:
    assert in_the_past(summary) == past


def test_everything_that_changes_a_project_has_its_sentence() -> None:
    for operation in (*GOVERNANCE, *OPERATIONS):
        if operation.record is Record.CHANGE and operation.scope is Scope.PROJECT:
            words = sentence(operation)
            assert words == words.strip(" .;")
            assert words[0].islower()
            assert " you" not in words
