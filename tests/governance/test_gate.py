"""What the gatekeeper promises: roles, narrowing, residency, and that nobody learns of what is not his."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from falaj.base.caller import Identity
from falaj.base.clock import DAY, MINUTE
from falaj.base.errors import Conflict, Forbidden, NotFound, Unauthenticated
from falaj.base.operation import Group, Operation
from falaj.database.work import UnitOfWork
from falaj.governance.gate import Grant
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import members as members_service
from falaj.governance.identity import operations as identity
from falaj.governance.identity import people
from falaj.governance.identity.store import other_admin_exists
from falaj.governance.policies import operations as policies
from falaj.governance.projects import operations as projects
from falaj.governance.roles import PLATFORM, Role
from tests.governance.conftest import ROLE_GROUPS, SAMPLES, House, Houses, Touch, Touched

GRANTED = {
    Role.VIEWER: {Group.READ},
    Role.SCIENTIST: {Group.READ, Group.DISCUSS, Group.WRITE, Group.PERSONAL},
    Role.ENGINEER: {Group.READ, Group.DISCUSS, Group.WRITE, Group.PERSONAL, Group.DEPLOY},
    Role.OPERATOR: {Group.READ, Group.DISCUSS, Group.OPERATE},
    Role.VALIDATOR: {Group.READ, Group.DISCUSS, Group.APPROVE},
    Role.AUDITOR: {Group.READ, Group.DISCUSS, Group.AUDIT},
    Role.ADMIN: set(ROLE_GROUPS) - {Group.APPROVE},
}


def allowed(house: House, token: str | None, group: Group, project: str, zone: str = "") -> bool:
    try:
        house.touch(token, group, project, zone)
    except (Forbidden, NotFound, Unauthenticated):
        return False
    return True


def test_each_role_allows_exactly_its_groups(house: House) -> None:
    house.project("water")
    for role, groups in GRANTED.items():
        token = house.user(f"a-{role}", ("water", role))
        assert {group for group in ROLE_GROUPS if allowed(house, token, group, "water")} == groups, role


def test_nobody_in_particular_may_do_nothing_in_particular(house: House) -> None:
    with pytest.raises(Unauthenticated):
        house.touch(None, Group.READ, "default")
    with pytest.raises(Unauthenticated):
        house.call(None, identity.WHOAMI, identity.Nothing())
    assert house.call(None, identity.PROVIDERS, identity.Nothing()).items == ()


@pytest.mark.parametrize("credentials", ["", "falaj_", "falaj_" + "A" * 43, "a.b.c", "x" * 100_000, "falaj_\u00e9", "\x00"])
def test_made_up_tokens_are_refused(small_house: House, credentials: str) -> None:
    with pytest.raises(Unauthenticated):
        small_house.call(credentials, identity.WHOAMI, identity.Nothing())


def test_an_outsider_is_told_the_same_as_if_the_project_did_not_exist(house: House) -> None:
    house.project("secret")
    outsider = house.user("outsider", ("default", Role.ADMIN))
    for group in ROLE_GROUPS:
        with pytest.raises(NotFound) as there:
            house.touch(outsider, group, "secret", "no-such-zone")
        with pytest.raises(NotFound) as nowhere:
            house.touch(outsider, group, "nothing", "no-such-zone")
        assert str(there.value).replace("secret", "nothing") == str(nowhere.value)
    with pytest.raises(NotFound) as explained:
        house.call(outsider, policies.EXPLAIN, policies.Explain(action="project.show", project="secret"))
    assert str(explained.value) == str(there.value)
    with pytest.raises(NotFound):
        house.token(outsider, projects=("secret",))
    listed = house.call(outsider, projects.LIST_PROJECTS, projects.ListProjects())
    assert [project.name for project in listed.items] == ["default"]


def test_a_member_without_the_permission_is_told_so(house: House) -> None:
    viewer = house.user("viewer", ("default", Role.VIEWER))
    with pytest.raises(Forbidden, match=r"No policy allows sample\.write in project 'default' for viewer") as refused:
        house.touch(viewer, Group.WRITE, "default")
    assert refused.value.rule == "no-permit"


def test_a_platform_admin_administers_projects_without_reading_their_data(house: House) -> None:
    maker = house.user("maker", ("platform", Role.ADMIN))
    house.call(maker, projects.CREATE_PROJECT, projects.CreateProject(name="theirs", zones=("home",)))
    assert {group for group in ROLE_GROUPS if allowed(house, house.owner, group, "theirs")} == {Group.ADMINISTER}
    house.call(house.owner, projects.SHOW_PROJECT, projects.OneProject(project="theirs"))
    house.give("owner", "theirs", Role.VIEWER)
    assert allowed(house, house.owner, Group.READ, "theirs")


def test_in_the_regulated_profile_platform_admins_do_not_enter_projects(houses: Houses) -> None:
    house = houses.open("regulated")
    maker = house.user("maker", ("platform", Role.ADMIN), zone="home")
    house.call(maker, projects.CREATE_PROJECT, projects.CreateProject(name="theirs", zones=("home",)))
    assert not any(allowed(house, house.owner, group, "theirs") for group in ROLE_GROUPS)
    with pytest.raises(Forbidden):
        house.give("owner", "theirs", Role.ADMIN)


def test_in_the_regulated_profile_no_platform_policy_permits(houses: Houses) -> None:
    house = houses.open("regulated")
    put = policies.PutPlatformPolicy(policy="open", text="permit (principal, action, resource);")
    with pytest.raises(Forbidden) as refused:
        house.call(house.owner, policies.PUT_PLATFORM_POLICY, put)
    assert refused.value.rule == "profile.platform-permit"
    freeze = policies.PutPlatformPolicy(policy="freeze", text='forbid (principal, action in Action::"deploy", resource);')
    house.call(house.owner, policies.PUT_PLATFORM_POLICY, freeze)


def test_in_the_regulated_profile_nobody_with_a_role_in_a_project_is_invited_again(houses: Houses) -> None:
    house = houses.open("regulated")
    for name, scope in (("inside", "default"), ("outside", "platform")):
        house.user(name, (scope, Role.VIEWER), zone="home")
        house.call(house.owner, identity.DISABLE_USER, identity.OneUser(user=name))
        house.call(house.owner, identity.ENABLE_USER, identity.OneUser(user=name))
    with pytest.raises(Forbidden) as refused:
        house.call(house.owner, identity.INVITE_USER, identity.InviteUser(user="inside"))
    assert refused.value.rule == "profile.invite"
    house.call(house.owner, identity.INVITE_USER, identity.InviteUser(user="outside"))


def test_a_platform_auditor_audits_every_project_and_nothing_else(house: House) -> None:
    auditor = house.user("auditor", ("platform", Role.AUDITOR))
    assert {group for group in ROLE_GROUPS if allowed(house, auditor, group, "default")} == {Group.AUDIT}


def test_residency_is_decided_by_the_rules_named_for_it(house: House) -> None:
    house.zone("frankfurt")
    house.project("german", "frankfurt")
    there = house.user("there", ("german", Role.SCIENTIST), zone="frankfurt")
    here = house.user("here", ("german", Role.SCIENTIST), zone="home")
    house.touch(there, Group.WRITE, "german", "frankfurt")
    with pytest.raises(Forbidden) as caller:
        house.touch(here, Group.READ, "german")
    assert caller.value.rule == "residency.caller-zone"
    with pytest.raises(Forbidden) as target:
        house.touch(there, Group.WRITE, "german", "home")
    assert target.value.rule == "residency.target-zone"


def test_a_regulated_platform_refuses_callers_without_a_zone(houses: Houses) -> None:
    house = houses.open("regulated")
    nowhere = house.user("nowhere", ("default", Role.VIEWER))
    with pytest.raises(Forbidden) as refused:
        house.touch(nowhere, Group.READ, "default")
    assert refused.value.rule == "residency.undeclared-zone"


def test_a_revoked_token_fails_on_the_next_call_on_every_control_plane(houses: Houses) -> None:
    house = houses.open()
    other = houses.open(again=house)
    token = house.token(house.owner)
    for plane in (house, other):
        assert plane.call(token, identity.WHOAMI, identity.Nothing()).name == "owner"
    id = house.call(house.owner, identity.LIST_TOKENS, identity.ListTokens()).items[-1].id
    other.call(house.owner, identity.REVOKE_TOKEN, identity.RevokeToken(token=id))
    for plane in (house, other):
        with pytest.raises(Unauthenticated):
            plane.call(token, identity.WHOAMI, identity.Nothing())


def test_a_disabled_user_is_out_at_once_and_stays_out_after_being_enabled(house: House) -> None:
    token = house.user("aisha", ("default", Role.VIEWER))
    assert allowed(house, token, Group.READ, "default")
    house.call(house.owner, identity.DISABLE_USER, identity.OneUser(user="aisha"))
    assert not allowed(house, token, Group.READ, "default")
    house.call(house.owner, identity.ENABLE_USER, identity.OneUser(user="aisha"))
    assert not allowed(house, token, Group.READ, "default")


def test_a_lost_role_is_lost_on_the_next_call(house: House) -> None:
    token = house.user("aisha", ("default", Role.SCIENTIST))
    assert allowed(house, token, Group.WRITE, "default")
    house.call(house.owner, members.REMOVE_MEMBER, members.RemoveMember(project="default", member="aisha", role=Role.SCIENTIST))
    with pytest.raises(NotFound):
        house.touch(token, Group.WRITE, "default")


def test_an_expired_token_is_refused(house: House) -> None:
    token = house.token(house.owner, days=2)
    house.clock.forward(2 * DAY - MINUTE)
    house.call(token, identity.WHOAMI, identity.Nothing())
    house.clock.forward(MINUTE)
    with pytest.raises(Unauthenticated):
        house.call(token, identity.WHOAMI, identity.Nothing())


def test_an_archived_project_can_be_read_and_restored_but_not_changed(house: House) -> None:
    house.call(house.owner, projects.DELETE_PROJECT, projects.OneProject(project="default"))
    assert allowed(house, house.owner, Group.READ, "default")
    with pytest.raises(Forbidden) as refused:
        house.touch(house.owner, Group.WRITE, "default")
    assert refused.value.rule == "project.archived"
    house.call(house.owner, projects.RESTORE_PROJECT, projects.OneProject(project="default"))
    assert allowed(house, house.owner, Group.WRITE, "default")


def test_a_narrowed_token_does_only_what_its_scopes_say(house: House) -> None:
    token = house.token(house.owner, scopes=("write", "read"))
    assert not allowed(house, token, Group.PERSONAL, "default")
    token = house.token(house.owner, scopes=("read", "sample.operate"))
    may = {group for group in ROLE_GROUPS if allowed(house, token, group, "default")}
    assert may == {Group.READ, Group.OPERATE}
    assert house.call(token, identity.WHOAMI, identity.Nothing()).scopes == ("read", "sample.operate")
    with pytest.raises(Forbidden) as refused:
        house.token(token)
    assert refused.value.rule == "token.scope"


def test_a_token_for_one_project_does_not_see_another(house: House) -> None:
    house.project("water")
    token = house.token(house.owner, projects=("water",))
    assert allowed(house, token, Group.WRITE, "water")
    with pytest.raises(NotFound):
        house.touch(token, Group.READ, "default")
    with pytest.raises(Forbidden) as refused:
        house.call(token, projects.CREATE_PROJECT, projects.CreateProject(name="more", zones=("home",)))
    assert refused.value.rule == "token.project-only"
    assert [project.name for project in house.call(token, projects.LIST_PROJECTS, projects.ListProjects()).items] == ["water"]


def decide(house: House, who: Identity, operation: Operation[Touch, Touched], project: str) -> Grant:
    return house.database.read(lambda work: house.gate.authorise(work, who, operation, Touch(project=project)))


ROLES = some.sampled_from(list(Role))
SCOPES = some.frozensets(
    some.sampled_from([str(group) for group in ROLE_GROUPS] + [one.name for one in SAMPLES.values()]), max_size=4
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    roles=some.frozensets(some.tuples(some.sampled_from(["default", "water", "platform"]), ROLES), max_size=3),
    scopes=SCOPES,
    reach=some.sampled_from([(), ("water",), ("default",)]),
    zone=some.sampled_from(["", "home", "frankfurt"]),
)
def test_no_decision_allows_what_no_role_grants(
    small_house: House, roles: frozenset[tuple[str, Role]], scopes: frozenset[str], reach: tuple[str, ...], zone: str
) -> None:
    house = small_house
    house.clock.forward(MINUTE)
    if "water" not in [p.name for p in house.call(house.owner, projects.LIST_PROJECTS, projects.ListProjects()).items]:
        house.project("water")
        house.zone("frankfurt")
    name = f"u{house.clock.now()}"
    house.user(name, *sorted(roles))
    id = house.call(house.owner, identity.SHOW_USER, identity.OneUser(user=name)).id
    who = Identity(
        principal=id,  # type: ignore[arg-type]
        kind="person",
        name=name,
        token=None,
        zone=zone,
        scopes=scopes,
        projects=frozenset(reach),
    )
    for project in ("default", "water"):
        for group, operation in SAMPLES.items():
            granted = any(
                (scope == project and group in GRANTED[role])
                or (scope == "platform" and (role, group) in {(Role.ADMIN, Group.ADMINISTER), (Role.AUDITOR, Group.AUDIT)})
                for scope, role in roles
            )
            reached = not reach or project in reach
            scoped = not scopes or bool(scopes & {str(group), operation.name})
            resident = zone in ("", "home") or group is Group.ADMINISTER
            if granted and reached and scoped and resident:
                assert decide(house, who, operation, project).project
            else:
                with pytest.raises((Forbidden, NotFound)):
                    decide(house, who, operation, project)


def test_the_last_admin_stays(house: House) -> None:
    with pytest.raises(Conflict):
        house.call(house.owner, identity.DISABLE_USER, identity.OneUser(user="owner"))
    with pytest.raises(Conflict):
        house.call(house.owner, members.REMOVE_PLATFORM_MEMBER, members.PlatformMember(member="owner", role=Role.ADMIN))
    with pytest.raises(Conflict):
        house.call(house.owner, members.REMOVE_MEMBER, members.RemoveMember(project="default", member="owner", role=Role.ADMIN))


@pytest.mark.parametrize("way", ["role", "account"])
def test_two_admins_who_shut_each_other_out_at_once_do_not_both_succeed(
    house: House, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_and_linger(work: UnitOfWork, scope: str, besides: str) -> bool:
        found = other_admin_exists(work, scope, besides)
        time.sleep(0.3)
        return found

    for module in (members_service, people):
        monkeypatch.setattr(module, "other_admin_exists", look_and_linger)

    def shut_out(by: str, name: str) -> bool:
        try:
            if way == "role":
                house.call(by, members.REMOVE_PLATFORM_MEMBER, members.PlatformMember(member=name, role=Role.ADMIN))
            else:
                house.call(by, identity.DISABLE_USER, identity.OneUser(user=name))
        except (Conflict, Forbidden, Unauthenticated):
            return False
        return True

    aisha = house.user("aisha", ("platform", Role.ADMIN))
    with ThreadPoolExecutor(2) as pool:
        succeeded = list(pool.map(shut_out, (house.owner, aisha), ("aisha", "owner")))
    assert sorted(succeeded) == [False, True]
    assert house.database.read(lambda work: other_admin_exists(work, PLATFORM, besides=""))


def test_a_decision_is_quick(small_house: House) -> None:
    """Generous limits, for a busy machine; the benchmark holds the real ones."""
    house = small_house
    for number in range(4):
        text = f'forbid (principal, action == Action::"sample.approve", resource) when {{ principal.name == "x{number}" }};'
        house.call(house.owner, policies.PUT_POLICY, policies.PutPolicy(project="default", policy=f"p{number}", text=text))
    who = house.database.read(lambda work: house.gate.authenticate(work, house.owner, house.clock.now()))
    touch = Touch(project="default")

    def cached(work: UnitOfWork) -> float:
        begun = time.perf_counter()
        for _ in range(300):
            house.gate.authenticate(work, house.owner, house.clock.now())
            house.gate.authorise(work, who, SAMPLES[Group.READ], touch)
        return (time.perf_counter() - begun) / 300

    def uncached(work: UnitOfWork) -> float:
        generation = house.gate.generation(work)
        standing = house.gate.standing(work, generation, who.principal)
        project = house.gate.project(work, generation, "default")
        assert standing is not None
        begun = time.perf_counter()
        for _ in range(300):
            assert house.gate.rule(work, generation, who, standing, "sample.read", Group.READ, project, "home").allowed
        return (time.perf_counter() - begun) / 300

    house.database.read(cached)
    print(f"cached {house.database.read(cached) * 1e6:.0f} us, uncached {house.database.read(uncached) * 1e6:.0f} us")
    assert house.database.read(cached) < 0.001
    assert house.database.read(uncached) < 0.003
