"""Owners, on both databases."""

import pytest

from falaj.base.errors import Forbidden, Invalid, NotFound
from tests.collaboration.team import Team, run_id


def test_a_thing_has_one_owner_and_the_last_one_named_it_is(team: Team) -> None:
    first = team.amal.own(team.run, "badr")
    assert first.owner is not None
    assert (first.owner.name, first.thing.label) == ("badr", "first")
    second = team.badr.own(team.run, team.amal.id)
    assert team.omar.owned().items == (second,)
    assert second.owner is not None
    assert second.owner.name == "amal"


def test_an_owner_can_be_taken_away(team: Team) -> None:
    team.amal.own(team.run, "badr")
    assert team.amal.own(team.run, "").owner is None
    assert team.amal.own(team.run, "").owner is None
    assert team.amal.owned().items == ()


def test_what_somebody_owns_is_listed_in_pages(team: Team) -> None:
    runs = sorted(team.make("run", run_id(str(number)), str(number)) for number in range(4))
    team.make("experiment", "7", "churn")
    team.amal.own("7", "badr", kind="experiment")
    for run in runs:
        team.amal.own(run, "badr" if run != runs[1] else "amal")
    page = team.omar.owned(owner="badr", limit=2)
    rest = team.omar.owned(owner="badr", limit=2, cursor=page.next)
    assert [owned.thing.id for owned in (*page.items, *rest.items)] == ["7", runs[0], runs[2], runs[3]]
    [one] = team.omar.owned(kind="run", thing=runs[1]).items
    assert one.owner is not None
    assert one.owner.name == "amal"
    assert len(team.omar.owned(kind="run").items) == 4
    with pytest.raises(Invalid, match="kind"):
        team.omar.owned(thing=runs[1])


def test_only_members_own(team: Team) -> None:
    for name in ("mallory", "nobody"):
        with pytest.raises(NotFound, match="no member of this project"):
            team.amal.own(team.run, name)
        with pytest.raises(NotFound, match="no member of this project"):
            team.amal.owned(owner=name)


def test_another_projects_things_are_not_owned_from_here(team: Team) -> None:
    team.amal.own(team.run, "badr")
    with pytest.raises(NotFound):
        team.mallory.own(team.run, "mallory", project="beta")
    with pytest.raises(NotFound):
        team.mallory.own(team.run, "mallory")
    assert team.mallory.owned(project="beta").items == ()
    assert team.mallory.owned(project="beta", kind="run", thing=team.run).items == ()


def test_a_viewer_names_no_owner(small_team: Team) -> None:
    with pytest.raises(Forbidden):
        small_team.omar.own(small_team.run, "omar")
