"""Moving aliases and stages: one order, the whole history, back again, and never against policy."""

import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.governance.roles import Role
from falaj.registry.operations import promotions as declared
from falaj.registry.operations import versions as version_operations
from falaj.registry.operations.models import RENAME_MODEL, RenameModel
from falaj.registry.promotions import previous
from tests.registry.conftest import Opener
from tests.registry.platform import PROJECT, Platform

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.fixture
def lined(platform: Platform) -> Platform:
    """With a model of four versions."""
    platform.model()
    for _ in range(4):
        platform.register()
    return platform


def stage(platform: Platform, number: int, stage: str, token: str = "", *, archive_others: bool = False) -> declared.Promotion:
    request = declared.SetStage(
        project=PROJECT,
        model="fraud",
        version=number,
        stage=stage,  # type: ignore[arg-type]
        archive_others=archive_others,
    )
    return platform.call(declared.SET_STAGE, request, token)


def test_an_alias_points_at_a_version_and_every_move_is_in_the_history(lined: Platform) -> None:
    first, second = lined.promote(1), lined.promote(3)
    assert (first.state, first.before, second.before, second.version) == ("done", 0, 1, 3)
    assert lined.resolve() == 3
    assert lined.show(3).aliases == ("champion",)
    assert lined.promote(3).state == "unchanged"
    lined.promote(2, alias="challenger")
    lined.remove()
    assert lined.remove().state == "unchanged"
    with pytest.raises(NotFound, match="champion"):
        lined.resolve()
    moves = [(move.alias, move.kind, move.before, move.version, move.by.name) for move in lined.history()]
    assert moves == [
        ("champion", "promote", 0, 1, "owner"),
        ("champion", "promote", 1, 3, "owner"),
        ("challenger", "promote", 0, 2, "owner"),
        ("champion", "remove", 3, 0, "owner"),
    ]
    assert [move.id for move in lined.history("champion")][:2] == [first.move, second.move]
    request = declared.ReadMoves(project=PROJECT, model="fraud", limit=3)
    page = lined.call(declared.HISTORY, request)
    rest = lined.call(declared.HISTORY, declared.ReadMoves(project=PROJECT, model="fraud", limit=3, cursor=page.next))
    assert [move.kind for move in (*page.items, *rest.items)] == ["remove", "promote", "promote", "promote"]
    assert rest.next == ""


@pytest.mark.parametrize("alias", ["latest", "LATEST", "v1", "V20", "12", "007"])
def test_an_alias_that_clients_read_as_a_version_is_refused(small: Platform, alias: str) -> None:
    small.model()
    small.register()
    with pytest.raises(Invalid, match="alias"):
        small.promote(1, alias=alias)


def test_an_alias_that_differs_from_another_in_case_only_is_refused(lined: Platform) -> None:
    lined.promote(1)
    with pytest.raises(Conflict, match="'champion'"):
        lined.promote(2, alias="Champion")
    lined.remove()
    lined.promote(2, alias="Champion")
    with pytest.raises(Conflict, match="'Champion'"):
        lined.promote(3)
    with pytest.raises(Conflict, match="'Champion'"):
        lined.rollback()
    assert lined.promote(3, alias="Champion").before == 2
    assert [row.alias for row in lined.history()] == ["champion", "champion", "Champion", "Champion"]


def test_what_is_not_there_cannot_be_promoted(lined: Platform) -> None:
    for number, name in ((9, "fraud"), (1, "unknown")):
        with pytest.raises(NotFound):
            lined.promote(number, name=name)
    lined.call(version_operations.DELETE_VERSION, lined.one(4))
    with pytest.raises(NotFound):
        lined.promote(4)
    assert lined.history() == []


def test_a_version_that_cannot_be_served_is_promoted_and_the_answer_says_so(lined: Platform) -> None:
    assert "cannot serve" in lined.promote(1).remarks[0]


def test_a_version_that_a_deployment_converts_is_promoted_and_the_answer_says_so(platform: Platform) -> None:
    platform.model()
    mlmodel = b"flavors:\n  sklearn:\n    pickled_model: model.pkl\n"
    version = platform.register(files={"model/MLmodel": mlmodel, "model/model.pkl": b"\x80\x04K\x01."})
    assert (version.servable, version.convertible) == (False, True)
    [remark] = platform.promote(1).remarks
    assert "`falaj deploy` converts it" in remark
    check = platform.call(version_operations.CHECK_SERVABLE, platform.one(1))
    assert (check.ok, check.convertible) == (False, True)


def test_rollbacks_go_back_step_by_step_and_forward_moves_begin_anew(lined: Platform) -> None:
    for number in (1, 2, 3):
        lined.promote(number)
    back = lined.rollback()
    assert (back.state, back.kind, back.before, back.version) == ("done", "rollback", 3, 2)
    assert lined.resolve() == 2
    lined.promote(4)
    assert lined.rollback().version == 2
    assert lined.rollback().version == 1
    with pytest.raises(Conflict, match="no version left"):
        lined.rollback()
    assert lined.resolve() == 1
    assert [move.kind for move in lined.history()].count("rollback") == 3


def test_a_rollback_passes_over_versions_that_are_gone(lined: Platform) -> None:
    for number in (1, 2, 3):
        lined.promote(number)
    lined.call(version_operations.DELETE_VERSION, lined.one(2))
    assert lined.rollback().version == 1


def test_a_rollback_brings_a_removed_alias_back(lined: Platform) -> None:
    lined.promote(1)
    lined.promote(2)
    lined.remove()
    assert lined.rollback().version == 2
    assert lined.rollback().version == 1


def test_there_is_nothing_to_roll_back_to_at_the_beginning(lined: Platform) -> None:
    with pytest.raises(Conflict):
        lined.rollback()
    lined.promote(1)
    with pytest.raises(Conflict):
        lined.rollback()


@given(st.lists(st.sampled_from([1, 2, 3, "back", "remove"]), max_size=30), st.sets(st.sampled_from([1, 2, 3])))
def test_rolling_back_never_stays_goes_to_nothing_or_to_what_is_gone(steps: list[int | str], gone: set[int]) -> None:
    """And it ends: each rollback takes back at least one move."""
    moves: list[SimpleNamespace] = []
    now = 0
    for step in [*steps, *["back"] * (len(steps) + 1)]:
        left = {1, 2, 3} - gone if len(moves) > len(steps) else {1, 2, 3}
        if step == "back":
            target = previous(moves, left)  # type: ignore[arg-type]
            if target:
                assert target in left
                assert target != now
                assert target in {move.version for move in moves}
                moves.append(SimpleNamespace(kind="rollback", version=target))
                now = target
        elif step == "remove":
            if now:
                moves.append(SimpleNamespace(kind="remove", version=0))
                now = 0
        elif step != now:
            moves.append(SimpleNamespace(kind="promote", version=step))
            now = int(step)
    assert previous(moves, {1, 2, 3} - gone) == 0  # type: ignore[arg-type]


def test_aliases_moved_at_once_have_one_order_and_all_moves_in_the_history(lined: Platform) -> None:
    errors: list[Exception] = []

    def move(number: int) -> None:
        try:
            lined.promote(number)
        except Exception as error:  # noqa: BLE001  told below
            errors.append(error)

    for _ in range(3):
        threads = [threading.Thread(target=move, args=(number,)) for number in (1, 2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    history = lined.history()
    assert {1, 2, 3, 4} == {move.version for move in history}
    assert [move.before for move in history] == [0, *(move.version for move in history)][:-1]
    moments = [move.at for move in history]
    assert moments == sorted(set(moments))
    assert lined.resolve() == history[-1].version


def test_stages_of_old_clients_move_and_archive_others(lined: Platform) -> None:
    assert stage(lined, 1, "Production").state == "done"
    assert stage(lined, 1, "Production").state == "unchanged"
    assert stage(lined, 2, "Production").state == "done"
    assert [lined.show(number).stage for number in (1, 2)] == ["Production", "Production"]
    assert stage(lined, 2, "Production", archive_others=True).state == "done"
    assert [lined.show(number).stage for number in (1, 2)] == ["Archived", "Production"]
    moves = [(move.alias, move.kind, move.version) for move in lined.history()]
    assert moves[-2:] == [("Archived", "stage", 1), ("Production", "stage", 2)]
    with pytest.raises(Invalid, match="Archived"):
        stage(lined, 2, "Archived", archive_others=True)
    with pytest.raises(Invalid, match="is a stage"):
        lined.as_of(lined.clock.now(), "Production")


def test_in_a_team_the_champion_and_production_want_a_second_person(team: Platform) -> None:
    team.model()
    team.register()
    engineer = team.person("emil", Role.ENGINEER)
    assert team.promote(1, engineer, alias="challenger").state == "done"
    assert stage(team, 1, "Staging", engineer).state == "done"
    for waiting in (team.promote(1, engineer), stage(team, 1, "Production", engineer)):
        assert (waiting.state, waiting.needed, waiting.rule) == ("waiting", 1, "promotion.four-eyes")
    for spelled in ("Champion", "CHAMPION", "production"):
        assert team.promote(1, engineer, alias=spelled).state == "waiting"
    assert team.show(1).aliases == ("challenger",)
    assert team.show(1).stage == "Staging"
    assert "champion" not in [move.alias for move in team.history()]


def test_where_it_is_regulated_every_alias_wants_a_second_person(opener: Opener) -> None:
    bank = opener("regulated")
    bank.model()
    bank.register()
    engineer = bank.person("emil", Role.ENGINEER)
    assert bank.promote(1, engineer, alias="challenger").state == "waiting"


def test_what_is_not_signed_is_never_promoted_under_four_eyes(team: Platform) -> None:
    team.model()
    request = version_operations.CreateVersion(project=PROJECT, model="fraud", source="s3://elsewhere")
    team.call(version_operations.CREATE_VERSION, request)
    with pytest.raises(Forbidden) as refused:
        team.promote(1)
    assert refused.value.rule in ("promotion.unsigned", "promotion.four-eyes")
    assert team.promote(1, alias="challenger").state == "done"


def test_a_project_adds_its_own_rules_of_promotion(lined: Platform) -> None:
    lined.policy(
        'forbid (principal, action == Action::"model.promote", resource) when { context has promotion && '
        'context.promotion.model == "fraud" && context.promotion.alias == "champion" && context.promotion.approvals < 2 };'
    )
    assert (lined.promote(1).needed, lined.promote(1).rule) == (2, "project/added")
    assert lined.promote(1, alias="challenger").state == "done"
    lined.policy('forbid (principal, action == Action::"model.promote", resource) when { context has promotion };')
    with pytest.raises(Forbidden) as refused:
        lined.promote(1)
    assert refused.value.rule == "project/added"
    with pytest.raises(Forbidden):
        stage(lined, 1, "Production")
    with pytest.raises(Forbidden):
        lined.remove("challenger")


def test_a_rule_about_one_model_cannot_be_walked_around_by_renaming_it(lined: Platform) -> None:
    lined.promote(1)
    lined.policy(
        'forbid (principal, action == Action::"model.promote", resource) when { context has promotion && '
        'context.promotion.model == "fraud" && context.promotion.approvals < 1 };'
    )
    lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="fraud", name="for a while"))
    lined.promote(2, name="for a while")
    with pytest.raises(Forbidden) as refused:
        lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="for a while", name="fraud"))
    assert refused.value.rule == "project/added"
    scientist = lined.person("salim", Role.SCIENTIST)
    with pytest.raises(Forbidden):
        lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="for a while", name="mine"), scientist)
    lined.remove(name="for a while")
    lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="for a while", name="fraud"), scientist)


def test_a_rule_about_one_models_stage_cannot_be_walked_around_by_renaming_it(lined: Platform) -> None:
    lined.policy(
        'forbid (principal, action == Action::"model.promote", resource) when { context has promotion && '
        'context.promotion.model == "loans" && context.promotion.alias == "Production" };'
    )
    stage(lined, 1, "Production")
    with pytest.raises(Forbidden) as refused:
        lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="fraud", name="loans"))
    assert refused.value.rule == "project/added"
    scientist = lined.person("salim", Role.SCIENTIST)
    with pytest.raises(Forbidden):
        lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="fraud", name="mine"), scientist)
    stage(lined, 1, "Archived")
    lined.call(RENAME_MODEL, RenameModel(project=PROJECT, model="fraud", name="loans"), scientist)


def test_leaving_production_wants_a_second_person_as_entering_it_does(team: Platform) -> None:
    team.model()
    for number in (1, 2):
        team.register()
        stage(team, number, "Staging")
    engineer, validator = team.person("emil", Role.ENGINEER), team.person("vida", Role.VALIDATOR)

    def approve(waiting: declared.Promotion) -> None:
        assert waiting.rule == "promotion.four-eyes"
        team.approve(waiting.approval, validator)

    for number in (1, 2):
        approve(stage(team, number, "Production", engineer))
        assert stage(team, number, "Production", engineer).state == "done"
    for elsewhere in ("None", "Archived", "Staging"):
        assert stage(team, 2, elsewhere, engineer).state == "waiting"
    assert team.show(2).stage == "Production"
    approve(stage(team, 2, "Archived", engineer))
    assert stage(team, 2, "Archived", engineer).state == "done"
    assert stage(team, 2, "None", engineer).state == "done"


DOCUMENTED = re.findall(r"```cedar\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


def test_the_documented_policies_hold_and_leave_the_first_question_alone(small: Platform) -> None:
    two_approvals, only_the_pipeline = DOCUMENTED
    small.model("card-fraud")
    small.register(name="card-fraud")
    small.policy(two_approvals, "two-approvals")
    small.policy(only_the_pipeline, "only-the-pipeline")
    waiting = small.promote(1, name="card-fraud")
    assert (waiting.state, waiting.needed, waiting.rule) == ("waiting", 2, "project/two-approvals")
    with pytest.raises(Forbidden) as refused:
        small.promote(1, alias="challenger", name="card-fraud")
    assert refused.value.rule == "project/only-the-pipeline"
    assert small.promote(1, alias="shadow", name="card-fraud").state == "done"
