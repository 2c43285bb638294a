"""What policy says about moving a model's alias, once it is known which one, to what, and who approved."""

import pytest

from falaj.base.errors import Invalid
from falaj.base.operation import Group
from falaj.database.work import UnitOfWork
from falaj.governance.policies import operations as ops
from falaj.governance.policies.cedar import Promoting, Ruling
from falaj.governance.profiles import PROFILES
from falaj.governance.roles import Role
from tests.governance.conftest import SAMPLES, House, Houses

DEPLOYING = SAMPLES[Group.DEPLOY].permission


def ruling(
    house: House, token: str, alias: str, approvals: int = 0, *, signed: bool = True, project: str = "default"
) -> Ruling:
    def rule(work: UnitOfWork) -> Ruling:
        who = house.gate.authenticate(work, token, house.clock.now())
        promoting = Promoting(model="fraud", alias=alias, approvals=approvals, signed=signed)
        return house.gate.rule_on_promotion(work, who, DEPLOYING, project, promoting)

    return house.database.read(rule)


@pytest.mark.parametrize(
    ("profile", "wanting", "free"),
    [
        ("solo", (), ("champion", "Production", "challenger")),
        ("team", ("champion", "Champion", "CHAMPION", "Production", "production"), ("challenger", "Staging", "*")),
        ("regulated", ("champion", "Production", "challenger", "Staging", "*"), ()),
    ],
)
def test_the_profile_says_which_aliases_want_four_eyes(
    houses: Houses, profile: str, wanting: tuple[str, ...], free: tuple[str, ...]
) -> None:
    house = houses.open(profile)
    engineer = house.user("emil", ("default", Role.ENGINEER), zone="home")
    for alias in wanting:
        assert ruling(house, engineer, alias).rules == ("promotion.four-eyes",)
        assert ruling(house, engineer, alias, 1).allowed
        assert ruling(house, engineer, alias, 1, signed=False).rules == ("promotion.unsigned",)
    for alias in free:
        assert ruling(house, engineer, alias, signed=False).allowed
    assert {alias for alias in (*wanting, *free) if PROFILES[profile].wants_four_eyes(alias)} == set(wanting)


def test_approvals_give_nobody_a_role(small_house: House) -> None:
    scientist, stranger = small_house.user("salim", ("default", Role.SCIENTIST)), small_house.user("sami")
    for token in (scientist, stranger):
        assert not ruling(small_house, token, "challenger", 3).allowed
    assert not ruling(small_house, small_house.owner, "challenger", project="unknown").allowed


def test_a_policy_may_speak_of_the_promotion_where_there_is_one(small_house: House) -> None:
    def put(condition: str) -> None:
        text = f'forbid (principal, action in [Action::"deploy"], resource) when {{ {condition} }};'
        small_house.call(small_house.owner, ops.PUT_POLICY, ops.PutPolicy(project="default", policy="more", text=text))

    put('context has promotion && context.promotion.alias == "champion" && context.promotion.approvals < 2')
    assert ruling(small_house, small_house.owner, "champion", 1).rules == ("project/more",)
    assert ruling(small_house, small_house.owner, "champion", 2).allowed
    # The first question, whether one may deploy at all, is asked before there is anything to say about a promotion.
    assert small_house.touch(small_house.owner, Group.DEPLOY, "default").project == "default"
    with pytest.raises(Invalid):
        put('context.promotion.alias == "champion"')
    with pytest.raises(Invalid):
        put('context has promotion && context.promotion.approvals == "two"')
