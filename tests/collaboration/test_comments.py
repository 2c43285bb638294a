"""Comments, on both databases."""

import pytest
from sqlalchemy import select

from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.collaboration.operations.words import Thing
from falaj.collaboration.store.comments import comments, mentions
from falaj.collaboration.store.notices import notices
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import add_membership, add_principal
from falaj.governance.projects.store import project_named
from falaj.governance.roles import Role
from tests.collaboration.team import Team, run_id


def test_a_comment_is_read_by_everybody_in_the_project(team: Team) -> None:
    said = team.amal.comment("The loss jumps at epoch 3.", team.run)
    [read] = team.omar.thread(team.run).items
    assert read == said
    assert (read.text, read.author.name, read.edited) == ("The loss jumps at epoch 3.", "amal", None)
    assert read.thing == Thing(kind="run", id=team.run, label="first")


def test_comments_come_oldest_first_in_pages(team: Team) -> None:
    other = team.make("run", run_id("other"), "other")
    said = [team.amal.comment(f"number {number}", team.run).id for number in range(5)]
    team.amal.comment("elsewhere", other)
    page = team.badr.thread(team.run, limit=3)
    rest = team.badr.thread(team.run, limit=3, cursor=page.next)
    assert [comment.id for comment in (*page.items, *rest.items)] == said
    assert rest.next == ""


@pytest.mark.parametrize("kind", ["experiment", "run", "model", "version"])
def test_every_kind_of_thing_can_be_talked_about(small_team: Team, kind: str) -> None:
    id = small_team.make(kind, "12" if kind == "experiment" else run_id("x"), "x")
    assert small_team.amal.comment("hello", id, kind=kind).thing.kind == kind


def test_what_does_not_exist_cannot_be_talked_about(team: Team) -> None:
    for kind, id in (("run", run_id("nothing")), ("run", "12"), ("experiment", team.run), ("model", team.run)):
        with pytest.raises(NotFound, match=f"This project has no {kind} '{id}'"):
            team.amal.comment("hello", id, kind=kind)
    with pytest.raises(NotFound):
        team.amal.thread(run_id("nothing"))


@pytest.mark.parametrize("spelled", ["012", "12\n", " 12", "1２"])
def test_a_thing_is_spelled_in_one_way(small_team: Team, spelled: str) -> None:
    """Otherwise what is said about it is kept where nobody looks."""
    for id in ("12", spelled):
        small_team.make("experiment", id, "x")
    assert small_team.amal.comment("hello", "12", kind="experiment")
    with pytest.raises(NotFound):
        small_team.amal.comment("hello", spelled, kind="experiment")


def test_members_who_are_mentioned_are_told_once(team: Team) -> None:
    said = team.amal.comment("@badr and @dina, and again @badr: look at this", team.run)
    assert [person.name for person in said.mentions] == ["badr", "dina"]
    [notice] = team.badr.inbox().items
    assert (notice.kind, notice.by.name, notice.about, notice.read) == ("mention", "amal", said.id, False)
    assert notice.excerpt == said.text
    assert notice.thing.label == "first"
    assert team.dina.inbox().unread == 1
    assert team.amal.inbox().items == team.omar.inbox().items == ()


def test_whoever_mentions_oneself_is_not_told(team: Team) -> None:
    assert [person.name for person in team.amal.comment("note to @amal", team.run).mentions] == ["amal"]
    assert team.amal.inbox().unread == 0


def test_a_stranger_and_nobody_are_mentioned_alike(team: Team) -> None:
    """Mallory exists, in another project; nobody does not. Neither the answer nor the stored text tells them apart."""
    said = team.amal.comment("@mallory and @nobody", team.run)
    assert (said.text, said.mentions) == ("@mallory and @nobody", ())
    assert team.mallory.inbox(project="beta").items == ()
    assert team.read(lambda work: work.execute(select(notices)).all()) == []


def test_who_left_the_project_or_was_disabled_is_not_mentioned_any_more(team: Team) -> None:
    team.leave("badr", Role.ENGINEER)
    assert team.amal.comment("@badr?", team.run).mentions == ()


def test_a_service_account_is_found_behind_a_strangers_name(team: Team) -> None:
    """Both are called mallory; the person works elsewhere, the account works here."""

    def add(work: UnitOfWork) -> str:
        project = project_named(work, "alpha")
        assert project is not None
        id = add_principal(work, kind="service", name="mallory", owner=project.id, now=team.clock.now())
        add_membership(work, id, project.id, Role.SCIENTIST, now=team.clock.now())
        return id

    account = team.database.write(add)
    assert [person.id for person in team.amal.comment("@mallory, train again", team.run).mentions] == [account]
    assert team.mallory.inbox(project="beta").items == ()


def test_editing_keeps_the_comment_and_tells_only_who_is_new(team: Team) -> None:
    said = team.amal.comment("look, @badr", team.run)
    team.badr.mark_read()
    changed = team.amal.edit(said.id, "look, @badr and @dina")
    assert (changed.id, changed.created, changed.text) == (said.id, said.created, "look, @badr and @dina")
    assert changed.edited is not None
    assert team.badr.inbox().unread == 0
    assert team.dina.inbox().unread == 1
    assert team.omar.thread(team.run).items == (changed,)


def test_only_the_author_changes_or_deletes_a_comment(team: Team) -> None:
    said = team.amal.comment("mine", team.run)
    for other in (team.badr, team.dina):
        with pytest.raises(Forbidden, match="author") as refused:
            other.edit(said.id, "yours")
        assert refused.value.rule == "comment.author"
        with pytest.raises(Forbidden):
            other.delete(said.id)
    team.amal.delete(said.id)
    assert team.amal.thread(team.run).items == ()
    with pytest.raises(NotFound):
        team.amal.edit(said.id, "again")


def test_an_administrator_removes_a_comment_and_nobody_else_can(team: Team) -> None:
    said = team.amal.comment("rude, @badr", team.run)
    with pytest.raises(Forbidden):
        team.badr.remove(said.id)
    team.dina.remove(said.id)
    assert team.amal.thread(team.run).items == ()
    [leaf] = [leaf for leaf in team.leaves("comment.remove") if leaf.outcome == "done"]
    assert leaf.facts == {"kind": "run", "thing": team.run, "principal": team.amal.id}


def test_with_a_comment_go_its_mentions_and_notices(team: Team) -> None:
    team.amal.delete(team.amal.comment("@badr", team.run).id)
    assert team.badr.inbox().items == ()
    for table in (comments, mentions, notices):
        assert team.read(lambda work, table=table: work.execute(select(table)).all()) == []  # type: ignore[misc]


@pytest.mark.parametrize("text", [" ", "\n\t", "\u2003"])
def test_a_comment_says_something(small_team: Team, text: str) -> None:
    with pytest.raises(Invalid, match="empty"):
        small_team.amal.comment(text, small_team.run)


def test_a_viewer_reads_and_does_not_write(small_team: Team) -> None:
    with pytest.raises(Forbidden):
        small_team.omar.comment("hello", small_team.run)


def test_somebody_of_another_project_sees_and_touches_nothing(team: Team) -> None:
    said = team.amal.comment("ours", team.run)
    own = team.make("run", run_id("theirs"), "theirs", "beta")
    team.mallory.comment("theirs, for @amal and @badr", own, project="beta")
    assert team.amal.inbox().items == ()
    for attempt in (
        lambda: team.mallory.thread(team.run),
        lambda: team.mallory.comment("hello", team.run),
        lambda: team.mallory.inbox(),
        lambda: team.mallory.thread(team.run, project="beta"),
        lambda: team.mallory.comment("hello", team.run, project="beta"),
        lambda: team.mallory.edit(said.id, "mine now", project="beta"),
        lambda: team.mallory.delete(said.id, project="beta"),
        lambda: team.mallory.remove(said.id, project="beta"),
    ):
        with pytest.raises(NotFound):
            attempt()
    assert team.amal.thread(team.run).items == (said,)


def test_anothers_comment_and_one_that_never_was_are_refused_in_the_same_words(team: Team) -> None:
    said, never = team.amal.comment("ours", team.run), run_id("never")
    refusals = []
    for id in (said.id, never):
        with pytest.raises(NotFound) as refused:
            team.mallory.edit(id, "x", project="beta")
        refusals.append(str(refused.value).replace(id, "ID"))
    assert refusals[0] == refusals[1]


def test_the_ledger_holds_ids_and_not_what_was_said(team: Team) -> None:
    said = team.amal.comment("secret plans, @badr", team.run)
    [leaf] = team.leaves("comment.add")
    assert leaf.facts == {"kind": "run", "thing": team.run, "comment": said.id, "mentions": [team.badr.id]}
    assert set(leaf.request["text"]) == {"commitment"}
    assert b"secret" not in leaf.encoded()


def test_an_erased_person_loses_the_name_everywhere_and_the_comment_stays(team: Team) -> None:
    team.badr.comment("I think so too.", team.run)
    team.amal.comment("Thanks @badr, and @dina!", team.run)
    team.erase("badr")
    first, second = team.amal.thread(team.run).items
    assert (first.author.id, first.author.name, first.author.display) == (team.badr.id, "", "")
    assert first.text == "I think so too."
    assert second.text == "Thanks @erased, and @dina!"
    stored = team.read(lambda work: [row.text for row in work.execute(select(comments))])
    assert not any("badr" in text for text in stored)
