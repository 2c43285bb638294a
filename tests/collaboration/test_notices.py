"""Notices, on both databases."""

from falaj.collaboration.notices import LONGEST_EXCERPT
from tests.collaboration.team import Team


def test_notices_come_newest_first_in_pages_and_are_marked_read(team: Team) -> None:
    said = [team.amal.comment(f"@badr {number}", team.run).id for number in range(5)]
    page = team.badr.inbox(limit=3)
    rest = team.badr.inbox(limit=3, cursor=page.next)
    assert [notice.about for notice in (*page.items, *rest.items)] == said[::-1]
    assert page.unread == 5
    assert team.badr.mark_read(page.items[0].id, page.items[2].id) == 3
    assert [notice.read for notice in team.badr.inbox().items] == [True, False, True, False, False]
    assert [notice.about for notice in team.badr.inbox(unread=True).items] == [said[3], said[1], said[0]]
    assert team.badr.mark_read() == 0
    assert team.badr.inbox(unread=True).items == ()


def test_nobody_reads_or_marks_anothers_notices(team: Team) -> None:
    team.amal.comment("@badr", team.run)
    [notice] = team.badr.inbox().items
    for somebody in (team.amal, team.dina, team.omar):
        assert somebody.inbox().items == ()
        assert somebody.mark_read(notice.id) == 0
    assert team.mallory.mark_read(notice.id, project="beta") == 0
    assert team.badr.inbox().unread == 1


def test_a_viewer_is_told_too(team: Team) -> None:
    team.amal.comment("@omar, have a look", team.run)
    assert team.omar.inbox().unread == 1
    assert team.omar.mark_read() == 0


def test_the_notices_of_one_project_are_not_in_another(team: Team) -> None:
    team.amal.comment("@dina", team.run)
    assert team.owner.inbox(project="beta").items == ()
    assert team.dina.inbox().unread == 1


def test_a_long_text_is_shown_by_its_beginning(small_team: Team) -> None:
    small_team.amal.comment("@badr " + "x" * 5000, small_team.run)
    [notice] = small_team.badr.inbox().items
    assert len(notice.excerpt) == LONGEST_EXCERPT
    assert notice.excerpt.startswith("@badr xxx")


def test_what_a_notice_is_about_may_be_gone(small_team: Team) -> None:
    """The run was removed for good: the notice stays, and says nothing about what it was called."""
    small_team.amal.comment("@badr", small_team.run)
    small_team.things.labels.clear()
    [notice] = small_team.badr.inbox().items
    assert notice.thing.label == ""


def test_marking_leaves_no_leaf_for_each_call(small_team: Team) -> None:
    for _ in range(3):
        small_team.badr.mark_read()
    assert small_team.leaves("notice.read") == []
