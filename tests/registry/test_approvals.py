"""Approvals: by somebody else, once, not for long, and for exactly one move."""

import threading
from dataclasses import replace

import pytest
from sqlalchemy import update

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.governance.identity import operations as identity
from falaj.governance.roles import Role
from falaj.registry.operations import models as model_operations
from falaj.registry.operations import promotions as declared
from falaj.registry.operations import versions as version_operations
from falaj.registry.store.tables import approvals
from tests.registry.platform import PROJECT, Platform


class Team:
    """A model of three versions in a team: Emil deploys, Vida and Vito validate, Mona may do both."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        platform.model()
        for _ in range(3):
            platform.register()
        self.emil = platform.person("emil", Role.ENGINEER)
        self.vida = platform.person("vida", Role.VALIDATOR)
        self.vito = platform.person("vito", Role.VALIDATOR)
        self.mona = platform.person("mona", Role.ENGINEER, Role.VALIDATOR)

    def ask(self, number: int = 1, token: str = "") -> str:
        """Ask for a champion, and be told to wait: the request's id."""
        waiting = self.platform.promote(number, token or self.emil)
        assert waiting.state == "waiting"
        return waiting.approval

    def state(self, approval: str) -> str:
        return self.platform.approval(approval).state


@pytest.fixture
def house(team: Platform) -> Team:
    return Team(team)


def test_a_second_person_approves_and_the_move_is_made_on_asking_again(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    assert house.ask() == approval  # asking again while it waits asks for nothing more
    shown = platform.approve(approval, house.vida)
    assert (shown.state, shown.given, shown.needed, shown.alias, shown.version) == ("ready", 1, 1, "champion", 1)
    assert (shown.requested_by.name, [vote.by.name for vote in shown.votes]) == ("emil", ["vida"])
    done = platform.promote(1, house.emil)
    assert (done.state, done.approval, done.given) == ("done", approval, 1)
    assert house.state(approval) == "used"
    move = platform.history()[-1]
    assert (move.by.name, move.approval, [person.name for person in move.approvers]) == ("emil", approval, ["vida"])


def test_approvals_are_asked_for_before_the_move_and_used_up_by_it(house: Team) -> None:
    platform = house.platform

    def ask() -> declared.Promotion:
        request = declared.Promote(project=PROJECT, model="fraud", version=1, reason="better recall")
        return platform.call(declared.ASK_APPROVAL, request, house.emil)

    waiting = ask()
    assert (waiting.state, ask().approval) == ("waiting", waiting.approval)
    platform.approve(waiting.approval, house.vida)
    allowed = ask()
    assert (allowed.state, allowed.approval, allowed.given) == ("allowed", waiting.approval, 1)
    assert (platform.history(), house.state(waiting.approval)) == ([], "ready")
    done = platform.promote(1, house.emil)
    assert (done.state, done.approval) == ("done", waiting.approval)
    assert platform.history()[-1].reason == "better recall"
    assert ask().state == "unchanged"


def test_where_nobody_has_to_approve_asking_is_answered_at_once_and_moves_nothing(platform: Platform) -> None:
    platform.model()
    platform.register()
    request = declared.Promote(project=PROJECT, model="fraud", version=1)
    assert platform.call(declared.ASK_APPROVAL, request).state == "allowed"
    assert platform.history() == []


def test_the_move_keeps_the_reason_it_was_asked_for_with(house: Team) -> None:
    platform = house.platform
    for number, again, kept in ((1, "", "better recall"), (2, "and it is urgent", "and it is urgent")):
        asked = platform.promote(number, house.emil, reason="better recall")
        assert platform.approve(asked.approval, house.vida).reason == "better recall"
        platform.promote(number, house.emil, reason=again)
        assert platform.history()[-1].reason == kept


def test_what_a_stage_archives_keeps_the_reason_too(house: Team) -> None:
    def stage(number: int, reason: str = "") -> declared.Promotion:
        request = declared.SetStage(
            project=PROJECT, model="fraud", version=number, stage="Production", archive_others=True, reason=reason
        )
        return house.platform.call(declared.SET_STAGE, request, house.emil)

    for number in (1, 2):
        house.platform.approve(stage(number, f"reason {number}").approval, house.vida)
        assert stage(number).state == "done"
    told = [(move.alias, move.version, move.reason) for move in house.platform.history()[-2:]]
    assert told == [("Archived", 1, "reason 2"), ("Production", 2, "reason 2")]


def test_a_request_tells_where_the_alias_points_now(house: Team) -> None:
    platform = house.platform
    first, second = house.ask(1), house.ask(2)
    assert [platform.approval(id).before for id in (first, second)] == [0, 0]
    platform.approve(first, house.vida)
    platform.promote(1, house.emil)
    assert [platform.approval(id).before for id in (first, second)] == [0, 1]
    request = declared.SetStage(project=PROJECT, model="fraud", version=1, stage="Production")
    waiting = platform.call(declared.SET_STAGE, request, house.emil)
    assert (waiting.state, waiting.kind) == ("waiting", "stage")
    assert platform.approval(waiting.approval).before == 0


def test_nobody_approves_what_he_asked_for(house: Team) -> None:
    approval = house.ask(token=house.mona)
    with pytest.raises(Forbidden) as refused:
        house.platform.approve(approval, house.mona)
    assert refused.value.rule == "approval.self"
    assert house.platform.promote(1, house.mona).state == "waiting"


def test_another_token_of_the_same_person_is_the_same_person(house: Team) -> None:
    platform = house.platform
    approval = house.ask(token=house.mona)
    other = platform.call(identity.CREATE_TOKEN, identity.CreateToken(label="mine"), house.mona).token
    with pytest.raises(Forbidden) as refused:
        platform.approve(approval, other)
    assert refused.value.rule == "approval.self"


def test_whoever_made_the_token_of_a_service_does_not_approve_what_it_asks_for(house: Team) -> None:
    platform = house.platform
    for role in (Role.ADMIN, Role.VALIDATOR):
        platform.join("mona", role, PROJECT)
    platform.call(
        identity.CREATE_SERVICE, identity.CreateService(project=PROJECT, name="pipeline", role=Role.ENGINEER), house.mona
    )
    made = identity.CreateServiceToken(project=PROJECT, service="pipeline")
    pipeline = platform.call(identity.CREATE_SERVICE_TOKEN, made, house.mona).token
    approval = house.ask(token=pipeline)
    with pytest.raises(Forbidden) as refused:
        platform.approve(approval, house.mona)
    assert refused.value.rule == "approval.self"
    platform.approve(approval, house.vida)
    assert platform.promote(1, pipeline).state == "done"


def test_services_and_short_lived_tokens_do_not_approve(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    platform.call(identity.CREATE_SERVICE, identity.CreateService(project=PROJECT, name="robot", role=Role.VALIDATOR))
    robot = platform.call(identity.CREATE_SERVICE_TOKEN, identity.CreateServiceToken(project=PROJECT, service="robot")).token
    brief = platform.call(identity.EXCHANGE_TOKEN, identity.ExchangeToken(), house.vida).token
    for token in (robot, brief):
        with pytest.raises(Forbidden) as refused:
            platform.approve(approval, token)
        assert refused.value.rule == "approval.person"
    assert house.state(approval) == "waiting"


def test_who_may_not_approve_does_not(house: Team) -> None:
    approval = house.ask()
    for token in (house.emil, house.platform.owner, house.platform.person("salim", Role.SCIENTIST)):
        with pytest.raises(Forbidden):
            house.platform.approve(approval, token)
    assert house.state(approval) == "waiting"


def test_an_approval_is_good_for_one_move(house: Team) -> None:
    platform = house.platform
    first = house.ask(1)
    platform.approve(first, house.vida)
    platform.promote(1, house.emil)
    second = house.ask(2)
    platform.approve(second, house.vida)
    platform.promote(2, house.emil)
    again = house.ask(1)
    assert again not in (first, second)
    with pytest.raises(Conflict, match="used"):
        platform.approve(first, house.vito)
    assert platform.resolve() == 2


def test_an_approval_is_bound_to_its_alias_its_version_and_its_kind(house: Team) -> None:
    platform = house.platform
    platform.approve(house.ask(1), house.vida)
    assert platform.promote(2, house.emil).state == "waiting"
    request = declared.SetStage(project=PROJECT, model="fraud", version=1, stage="Production")
    assert platform.call(declared.SET_STAGE, request, house.emil).state == "waiting"
    platform.promote(1, house.emil)
    assert platform.remove(token=house.emil).state == "waiting"


def test_an_approval_expires(house: Team) -> None:
    platform = house.platform
    asked = platform.promote(1, house.emil)
    assert asked.expires is not None
    assert asked.expires > platform.clock.now() + 7 * DAY - DAY // 1000
    platform.approve(asked.approval, house.vida)

    platform.change(update(approvals).values(expires=platform.clock.now()))
    assert house.state(asked.approval) == "expired"
    with pytest.raises(Conflict, match="expired"):
        platform.approve(asked.approval, house.vito)
    again = platform.promote(1, house.emil)
    assert (again.state, again.given) == ("waiting", 0)
    assert again.approval != asked.approval
    listed = platform.call(declared.LIST_APPROVALS, declared.ListApprovals(project=PROJECT))
    assert [approval.id for approval in listed.items] == [again.approval]
    closed = platform.call(declared.LIST_APPROVALS, declared.ListApprovals(project=PROJECT, state="closed"))
    assert [approval.state for approval in closed.items] == ["expired"]


def test_another_projects_approval_does_not_exist(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    platform.project("other")
    platform.join("vida", Role.VALIDATOR, "other")
    with pytest.raises(NotFound):
        platform.approve(approval, house.vida, project="other")
    request = declared.OneApproval(project="other", approval=approval)
    with pytest.raises(NotFound):
        platform.call(declared.SHOW_APPROVAL, request)
    assert platform.call(declared.LIST_APPROVALS, declared.ListApprovals(project="other")).items == ()
    assert house.state(approval) == "waiting"


def test_one_refusal_ends_it_also_by_somebody_who_had_approved(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    platform.approve(approval, house.vida)
    with pytest.raises(Conflict, match="counts once"):
        platform.approve(approval, house.vida)
    refused = declared.GiveApproval(project=PROJECT, approval=approval, note="Seen again.")
    shown = platform.call(declared.REFUSE_APPROVAL, refused, house.vida)
    assert (shown.state, shown.given, shown.votes[0].note) == ("refused", 0, "Seen again.")
    with pytest.raises(Conflict, match="refused"):
        platform.approve(approval, house.vito)
    assert platform.promote(1, house.emil).approval != approval


def test_who_asked_takes_it_back_and_nobody_else(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    request = declared.OneApproval(project=PROJECT, approval=approval)
    with pytest.raises(Forbidden):
        platform.call(declared.WITHDRAW_APPROVAL, request, house.mona)
    assert platform.call(declared.WITHDRAW_APPROVAL, request, house.emil).state == "withdrawn"
    with pytest.raises(Conflict):
        platform.approve(approval, house.vida)


def test_a_version_that_is_deleted_takes_its_requests_along(house: Team) -> None:
    platform = house.platform
    first, second = house.ask(1), house.ask(2)
    platform.call(version_operations.DELETE_VERSION, platform.one(1))
    assert [house.state(first), house.state(second)] == ["void", "waiting"]
    platform.call(model_operations.DELETE_MODEL, model_operations.OneModel(project=PROJECT, model="fraud"))
    assert house.state(second) == "void"


def test_a_model_that_is_renamed_leaves_its_requests_behind(house: Team) -> None:
    """Whoever approved a move of a sandbox has not approved one of what it is called afterwards."""
    approval = house.ask()
    house.platform.approve(approval, house.vida)
    renaming = model_operations.RenameModel(project=PROJECT, model="fraud", name="loans")
    house.platform.call(model_operations.RENAME_MODEL, renaming, house.emil)
    assert house.state(approval) == "void"
    assert house.platform.promote(1, house.emil, name="loans").state == "waiting"


def test_the_approval_of_somebody_who_was_disabled_since_does_not_count(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    platform.approve(approval, house.vida)
    platform.call(identity.DISABLE_USER, identity.OneUser(user="vida"))
    assert house.state(approval) == "waiting"
    assert platform.promote(1, house.emil).state == "waiting"
    platform.approve(approval, house.vito)
    assert platform.promote(1, house.emil).state == "done"


def test_a_project_may_want_two_approvals(house: Team) -> None:
    platform = house.platform
    approval = house.ask()
    platform.approve(approval, house.vida)
    platform.policy(
        'forbid (principal, action == Action::"model.promote", resource) when { context has promotion && '
        'context.promotion.alias == "champion" && context.promotion.approvals < 2 };'
    )
    waiting = platform.promote(1, house.emil)
    assert (waiting.state, waiting.approval, waiting.given, waiting.needed) == ("waiting", approval, 1, 2)
    platform.approve(approval, house.vito)
    assert platform.promote(1, house.emil).state == "done"
    assert {person.name for person in platform.history()[-1].approvers} == {"vida", "vito"}


def test_a_rollback_to_what_was_approved_before_needs_no_new_approval(house: Team) -> None:
    platform = house.platform
    for number in (1, 2):
        platform.approve(house.ask(number), house.vida)
        platform.promote(number, house.emil)
    back = platform.rollback(house.emil)
    assert (back.state, back.version) == ("done", 1)
    move = platform.history()[-1]
    assert (move.kind, [person.name for person in move.approvers]) == ("rollback", ["vida"])


def test_a_rollback_to_what_nobody_approved_waits(team: Platform) -> None:
    """As after a platform of one person became one of a team."""
    house = Team(team)
    team.gate.profile = replace(team.profile, four_eyes=frozenset())
    team.promote(1)
    team.promote(2)
    team.gate.profile = team.profile
    waiting = team.rollback(house.emil)
    assert (waiting.state, waiting.kind) == ("waiting", "rollback")
    team.approve(waiting.approval, house.vida)
    assert team.rollback(house.emil).version == 1


def test_one_approval_used_at_once_by_two_makes_one_move(house: Team) -> None:
    platform = house.platform
    platform.approve(house.ask(), house.vida)
    states: list[str] = []
    threads = [
        threading.Thread(target=lambda token=token: states.append(platform.promote(1, token).state))
        for token in (house.emil, house.mona)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states) == ["done", "unchanged"]
    assert len(platform.history()) == 1


def test_requests_are_listed_newest_first_page_by_page(house: Team) -> None:
    platform = house.platform
    asked = [house.ask(number) for number in (1, 2, 3)]
    first = platform.call(declared.LIST_APPROVALS, declared.ListApprovals(project=PROJECT, limit=2))
    rest = platform.call(
        declared.LIST_APPROVALS, declared.ListApprovals(project=PROJECT, limit=2, model="fraud", cursor=first.next)
    )
    assert [approval.id for approval in (*first.items, *rest.items)] == asked[::-1]
    assert Moment(first.items[0].requested) < first.items[0].expires
