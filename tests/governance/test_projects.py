"""Projects and zones: keys made with them, places that stay, listings that show only one's own."""

from typing import Any

import pytest

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.governance.bootstrap import owner_token
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.profiles import PROFILES
from falaj.governance.projects import operations as projects
from falaj.governance.roles import Role
from falaj.governance.zones import operations as zones
from falaj.keys.ring import project_key
from tests.governance.conftest import House, Houses


def test_whoever_creates_a_project_becomes_its_admin_and_it_has_a_key(house: House) -> None:
    maker = house.user("maker", ("platform", Role.ADMIN))
    made = house.call(maker, projects.CREATE_PROJECT, projects.CreateProject(name="water", zones=("home",)))
    assert made.roles == (Role.ADMIN,)
    assert project_key(made.id) in house.ring.names()


def test_creating_projects_needs_a_platform_admin(house: House) -> None:
    admin = house.user("admin", ("default", Role.ADMIN))
    with pytest.raises(Forbidden):
        house.call(admin, projects.CREATE_PROJECT, projects.CreateProject(name="water", zones=("home",)))


def test_a_project_lists_existing_zones_each_once(house: House) -> None:
    for in_zones, error in ((("atlantis",), NotFound), (("home", "home"), Invalid)):
        with pytest.raises(error):
            house.project("water", *in_zones)
    house.project("water")
    with pytest.raises(Conflict):
        house.project("water")


def test_a_zone_that_holds_data_stays_with_the_project(house: House) -> None:
    house.zone("frankfurt")
    id = house.project("water", "home", "frankfurt")
    house.held.add((id, "frankfurt"))
    only_home = projects.UpdateProject(project="water", zones=("home",))
    with pytest.raises(Conflict, match="frankfurt"):
        house.call(house.owner, projects.UPDATE_PROJECT, only_home)
    house.held.clear()
    assert house.call(house.owner, projects.UPDATE_PROJECT, only_home).zones == ("home",)
    words = projects.UpdateProject(project="water", description="the wells")
    assert house.call(house.owner, projects.UPDATE_PROJECT, words).zones == ("home",)


def test_listing_pages_through_ones_own_projects_in_order(house: House) -> None:
    for name in ("c", "a", "b", "d"):
        house.project(name)
    token = house.user("aisha", ("a", Role.VIEWER), ("c", Role.VIEWER), ("d", Role.VIEWER))
    first = house.call(token, projects.LIST_PROJECTS, projects.ListProjects(limit=2))
    second = house.call(token, projects.LIST_PROJECTS, projects.ListProjects(limit=2, cursor=first.next))
    assert [project.name for project in first.items + second.items] == ["a", "c", "d"]
    assert second.next == ""
    with pytest.raises(Invalid):
        house.call(token, projects.LIST_PROJECTS, projects.ListProjects(cursor="bm9uc2Vuc2U"))


def test_members_are_listed_page_by_page(house: House) -> None:
    for name in ("aisha", "badr", "carim"):
        house.user(name, ("default", Role.VIEWER))
    seen: list[str] = []
    cursor = ""
    while True:
        page = house.call(house.owner, members.LIST_MEMBERS, members.ListMembers(project="default", limit=2, cursor=cursor))
        seen += [f"{member.name}:{member.role}" for member in page.items]
        if not (cursor := page.next):
            break
    assert sorted(seen) == ["aisha:viewer", "badr:viewer", "carim:viewer", "owner:admin"]


@pytest.mark.parametrize("wrong", [{"country": "XX"}, {"storage": "nowhere"}])
def test_a_zone_needs_a_real_country_and_a_known_storage(small_house: House, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        small_house.call(small_house.owner, zones.CREATE_ZONE, zones.CreateZone(**{"name": "z", "country": "AE", **wrong}))


def test_a_zone_in_use_is_neither_moved_nor_removed(house: House) -> None:
    changes: list[dict[str, Any]] = [{"country": "DE"}, {"storage": "far"}]
    for change in changes:
        with pytest.raises(Conflict):
            house.call(house.owner, zones.UPDATE_ZONE, zones.UpdateZone(zone="home", **change))
    with pytest.raises(Conflict):
        house.call(house.owner, zones.DELETE_ZONE, zones.OneZone(zone="home"))
    tagged = house.call(house.owner, zones.UPDATE_ZONE, zones.UpdateZone(zone="home", jurisdictions=("uae", "uae-difc")))
    assert tagged.jurisdictions == ("uae", "uae-difc")
    assert tagged.country == "AE"


def test_a_zone_nobody_uses_can_move_and_go(house: House) -> None:
    house.zone("far")
    assert house.call(house.owner, zones.UPDATE_ZONE, zones.UpdateZone(zone="far", country="FR")).country == "FR"
    house.call(house.owner, zones.DELETE_ZONE, zones.OneZone(zone="far"))
    assert [zone.name for zone in house.call(house.owner, zones.LIST_ZONES, zones.ListZones()).items] == ["home"]


def test_the_first_start_happens_once(houses: Houses) -> None:
    house = houses.open("solo")
    assert house.owner.startswith("falaj_")
    assert houses.open(again=house).owner == ""
    me = house.call(house.owner, identity.WHOAMI, identity.Nothing())
    assert me.platform_roles == (Role.ADMIN,)
    assert [(entry.project, entry.role) for entry in me.roles] == [("default", Role.ADMIN)]
    again = house.database.write(lambda work: owner_token(work, profile=house.profile, zone="home", now=house.clock.now()))
    assert house.call(again, identity.WHOAMI, identity.Nothing()).id == me.id


def test_every_profile_keeps_passes_short() -> None:
    assert all(profile.pass_life <= 15 * 60 * 1_000_000 for profile in PROFILES.values())


def test_every_change_begins_a_new_generation(house: House) -> None:
    seen = [house.generation()]

    def expect_new() -> None:
        assert house.generation() > seen[-1]
        seen.append(house.generation())

    house.zone("far")
    expect_new()
    house.project("water")
    expect_new()
    house.user("aisha")
    expect_new()
    house.give("aisha", "water", Role.VIEWER)
    expect_new()
    house.token(house.owner)
    expect_new()
    house.call(house.owner, members.MAP_GROUP, members.ProjectGroupRole(project="water", group="g", role=Role.VIEWER))
    expect_new()
