"""Added policies: checked by Cedar, bound to their scope, never stronger than a forbid, and explained."""

import subprocess
import sys

import pytest
from sqlalchemy import update

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.operation import Group
from falaj.database.work import UnitOfWork
from falaj.governance.identity import operations as identity
from falaj.governance.operations import OPERATIONS
from falaj.governance.policies import operations as ops
from falaj.governance.policies.cedar import Cedar
from falaj.governance.policies.store import policies
from falaj.governance.roles import Role
from falaj.governance.store import changed
from tests.governance.conftest import House

EVERYBODY = "permit (principal, action, resource);"


def put(house: House, project: str, text: str, name: str = "added", by: str = "") -> ops.PolicyView:
    return house.call(by or house.owner, ops.PUT_POLICY, ops.PutPolicy(project=project, policy=name, text=text))


def put_everywhere(house: House, text: str, name: str = "added") -> ops.PolicyView:
    return house.call(house.owner, ops.PUT_PLATFORM_POLICY, ops.PutPlatformPolicy(policy=name, text=text))


def test_the_builtin_policies_fit_the_schema() -> None:
    Cedar(OPERATIONS).check_builtin()


@pytest.mark.parametrize(
    "text",
    [
        "permit (principal",
        'permit (principal, action == Action::"no.such", resource);',
        "permit (principal, action, resource) when { principal.salary > 3 };",
        'permit (principal == Ghost::"x", action, resource);',
        "forbid (principal, action, resource) when { resource.name == 3 };",
        "permit (principal == ?principal, action, resource);",
        EVERYBODY + EVERYBODY,
        "",
        " " * 20_000 + EVERYBODY,
    ],
)
def test_a_policy_that_cedar_refuses_is_refused(small_house: House, text: str) -> None:
    with pytest.raises(Invalid):
        put(small_house, "default", text)
    assert small_house.call(small_house.owner, ops.LIST_POLICIES, ops.ListPolicies(project="default")).items == ()


CONDITION = "permit (principal, action, resource) when {{ {} }};"
CHECK = """
import sys
from falaj.base.errors import Invalid
from falaj.governance.operations import OPERATIONS
from falaj.governance.policies.cedar import Cedar
try:
    Cedar(OPERATIONS).check(sys.stdin.read())
except Invalid:
    print("refused")
"""


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 1000 + "true" + ")" * 1000,
        "[" * 1000 + "]" * 1000,
        "{a:" * 1000 + "true" + "}" * 1000,
        "!" * 3000 + "true",
        "-" * 3000 + "1 == 1",
        "true" + " && true" * 1200,
        "principal has a" + ".b" * 2000,
        "true // \r && " + "(" * 1000 + "true" + ")" * 1000,
        "if true then true else " * 400 + "true",
    ],
    ids=["round", "square", "record", "not", "minus", "and", "has", "behind a comment", "if"],
)
def test_a_policy_too_deep_for_the_parser_is_refused_before_it(condition: str) -> None:
    """In a process of its own: the parser's overflow would end this one."""
    asked = subprocess.run(
        [sys.executable, "-c", CHECK], input=CONDITION.format(condition), capture_output=True, text=True, timeout=60
    )
    assert (asked.returncode, asked.stdout) == (0, "refused\n"), asked.stderr


def test_brackets_in_strings_and_comments_do_not_count(small_house: House) -> None:
    text = f"// {'(' * 100}\n" + CONDITION.format(f'principal.name != "{"[" * 100}" && !(1 - 1 == -2)')
    assert put(small_house, "default", text).text == text


def test_all_policies_of_a_scope_together_are_bounded(small_house: House) -> None:
    padded = EVERYBODY + " " * (9_900 - len(EVERYBODY))
    for number in range(10):
        put(small_house, "default", padded, name=f"p{number}")
    with pytest.raises(Conflict, match="100000 characters"):
        put(small_house, "default", padded, name="p10")
    put(small_house, "default", EVERYBODY, name="p10")


def test_a_policy_can_be_put_replaced_listed_shown_and_deleted(house: House) -> None:
    put(house, "default", EVERYBODY)
    narrower = 'permit (principal, action in Action::"read", resource);'
    assert put(house, "default", narrower).rule == "project/added"
    listed = house.call(house.owner, ops.LIST_POLICIES, ops.ListPolicies(project="default")).items
    assert [policy.text for policy in listed] == [narrower]
    one = ops.OnePolicy(project="default", policy="added")
    assert house.call(house.owner, ops.SHOW_POLICY, one).text == narrower
    house.call(house.owner, ops.DELETE_POLICY, one)
    with pytest.raises(NotFound):
        house.call(house.owner, ops.SHOW_POLICY, one)
    assert "role.viewer" in {
        policy.rule for policy in house.call(house.owner, ops.LIST_PLATFORM_POLICIES, identity.Nothing()).items
    }


def test_a_builtin_policy_has_no_time_and_one_that_was_put_has(house: House) -> None:
    put_everywhere = ops.PutPlatformPolicy(policy="never", text="forbid (principal, action, resource) when { false };")
    put_at = house.clock.now()
    house.call(house.owner, ops.PUT_PLATFORM_POLICY, put_everywhere)
    house.clock.forward(1_000_000)
    listed = house.call(house.owner, ops.LIST_PLATFORM_POLICIES, identity.Nothing()).items
    times = {policy.rule: (policy.created, policy.changed) for policy in listed}
    assert times.pop("platform/never") == (put_at, put_at)
    assert set(times.values()) == {(None, None)}


def test_a_projects_policy_has_no_effect_in_another(house: House) -> None:
    house.project("water")
    admin = house.user("admin", ("default", Role.ADMIN))
    stranger = house.user("stranger")
    put(house, "default", EVERYBODY, by=admin)
    house.touch(stranger, Group.WRITE, "default")
    with pytest.raises(NotFound):
        house.touch(stranger, Group.READ, "water")
    with pytest.raises(NotFound):
        put(house, "water", EVERYBODY, by=admin)
    with pytest.raises(Forbidden):
        house.call(admin, ops.PUT_PLATFORM_POLICY, ops.PutPlatformPolicy(policy="mine", text=EVERYBODY))
    with pytest.raises(Forbidden):
        house.call(stranger, identity.LIST_USERS, identity.ListUsers())


def test_no_policy_lifts_a_forbid(house: House) -> None:
    put(house, "default", EVERYBODY)
    put_everywhere(house, EVERYBODY)
    with pytest.raises(Forbidden) as target:
        house.touch(house.owner, Group.WRITE, "default", "elsewhere")
    assert target.value.rule == "residency.target-zone"
    with pytest.raises(Forbidden) as scope:
        house.touch(house.token(house.owner, scopes=("read",)), Group.WRITE, "default")
    assert scope.value.rule == "token.scope"
    with pytest.raises(Exception, match="needs a token"):
        house.touch(None, Group.READ, "default")


def test_a_projects_forbid_binds_its_admin_and_is_named(house: House) -> None:
    put(house, "default", 'forbid (principal, action == Action::"sample.deploy", resource);', name="freeze")
    with pytest.raises(Forbidden) as refused:
        house.touch(house.owner, Group.DEPLOY, "default")
    assert refused.value.rule == "project/freeze"


def test_a_policy_may_not_lock_its_author_out(house: House) -> None:
    with pytest.raises(Conflict, match="project/added"):
        put(house, "default", "forbid (principal, action, resource);")
    with pytest.raises(Conflict):
        put_everywhere(house, "forbid (principal, action, resource);")
    house.touch(house.owner, Group.READ, "default")


def test_a_platform_policy_holds_in_every_project(house: House) -> None:
    house.project("water")
    put_everywhere(
        house, 'forbid (principal, action in Action::"deploy", resource is Project) when { resource.countries.contains("AE") };'
    )
    for project in ("default", "water"):
        with pytest.raises(Forbidden) as refused:
            house.touch(house.owner, Group.DEPLOY, project)
        assert refused.value.rule == "platform/added"


def test_a_policy_that_fails_while_deciding_refuses(house: House) -> None:
    text = "permit (principal, action, resource) when { 9223372036854775807 + 1 == 0 };"
    put(house, "default", 'permit (principal, action in Action::"read", resource);')

    def tamper(work: UnitOfWork) -> None:
        work.execute(update(policies).values(text=text))
        changed(work)

    house.database.write(tamper)
    with pytest.raises(Forbidden) as refused:
        house.touch(house.owner, Group.READ, "default")
    assert refused.value.rule == "policy.error"


def test_a_stored_policy_that_no_longer_reads_refuses(house: House) -> None:
    put(house, "default", EVERYBODY)

    def tamper(work: UnitOfWork) -> None:
        work.execute(update(policies).values(text="permit (everything"))
        changed(work)

    house.database.write(tamper)
    with pytest.raises(Forbidden) as refused:
        house.touch(house.owner, Group.READ, "default")
    assert refused.value.rule == "policy.error"


def explain(house: House, by: str, action: str, **more: str) -> ops.Explanation:
    return house.call(by, ops.EXPLAIN, ops.Explain(action=action, **more))


def test_explaining_names_the_policies_that_decide(house: House) -> None:
    token = house.user("aisha", ("default", Role.SCIENTIST))
    allowed = explain(house, token, "sample.write", project="default")
    assert allowed.allowed
    assert allowed.roles == ("scientist",)
    assert allowed.group == "write"
    assert [entry.rule for entry in allowed.deciding] == ["role.scientist"]
    assert 'Role::"scientist"' in allowed.deciding[0].text
    denied = explain(house, token, "sample.write", project="default", zone="elsewhere")
    assert not denied.allowed
    assert [entry.rule for entry in denied.deciding] == ["residency.target-zone"]
    nothing = explain(house, token, "sample.deploy", project="default")
    assert not nothing.allowed
    assert nothing.deciding == ()
    away = explain(house, token, "sample.write", project="default", caller_zone="elsewhere")
    assert [entry.rule for entry in away.deciding] == ["residency.caller-zone"]
    with pytest.raises(Invalid):
        explain(house, token, "no.such")


def test_explaining_says_whether_a_project_must_be_named(house: House) -> None:
    for action in ("sample.write", "policy.list"):
        with pytest.raises(Invalid, match="touches a project"):
            explain(house, house.owner, action)
    with pytest.raises(Invalid, match="without a project"):
        explain(house, house.owner, "user.list", project="default")
    assert explain(house, house.owner, "policy.read").allowed, "it is a permission on both"
    assert explain(house, house.owner, "policy.read", project="default").allowed


def test_an_operation_is_explained_by_its_own_name(house: House) -> None:
    answer = explain(house, house.owner, "member.add", project="default")
    assert answer.permission == "member.administer"
    assert answer.allowed


def test_asking_about_others_needs_audit_or_administer_there(house: House) -> None:
    aisha = house.user("aisha", ("default", Role.SCIENTIST))
    auditor = house.user("auditor", ("default", Role.AUDITOR))
    assert explain(house, auditor, "sample.write", project="default", principal="aisha").allowed
    with pytest.raises(Forbidden) as refused:
        explain(house, aisha, "sample.read", project="default", principal="auditor")
    assert refused.value.rule == "policy.explain-others"
    with pytest.raises(Forbidden):
        explain(house, auditor, "user.list", principal="aisha")
    assert not explain(house, house.owner, "user.list", principal="aisha").allowed


def test_the_text_of_a_platform_policy_is_shown_to_those_who_may_read_it(house: House) -> None:
    text = 'forbid (principal, action == Action::"sample.write", resource);'
    put_everywhere(house, text)
    member = house.user("aisha", ("default", Role.SCIENTIST))
    for asker, shown in ((member, ""), (house.owner, text)):
        deciding = explain(house, asker, "sample.write", project="default").deciding
        assert [(entry.rule, entry.text) for entry in deciding] == [("platform/added", shown)]
