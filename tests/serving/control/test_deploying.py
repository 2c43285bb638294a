"""Deploying, splitting, promoting and going back."""

import pickle

import pytest

from falaj.base.clock import DAY
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.governance.identity import operations as identity
from falaj.governance.roles import Role
from falaj.lifecycle.operations.gates import APPLY_GATES, ApplyGates, Gate, Requirement
from falaj.lineage.operations import SHOW_GRAPH, ShowGraph
from falaj.registry.operations import promotions, versions
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import Options
from falaj.serving.operations.words import Arm, Steps
from tests.registry.platform import MODELS
from tests.serving.control.conftest import Opener
from tests.serving.control.platform import MLMODEL, ONNX, PROJECT, Platform, live


def shares(endpoint: declared.Endpoint) -> dict[int, int]:
    return {arm.revision: arm.share for arm in endpoint.arms}


def test_a_first_deployment_gets_everything_whatever_its_mode(platform: Platform) -> None:
    platform.register()
    made = platform.deploy(1, mode="canary")
    assert shares(made.endpoint) == {1: 10_000}
    assert "gets everything" in made.remarks[0]
    assert made.endpoint.back_to == 0


def test_the_champion_is_deployed_where_nobody_says_otherwise(small: Platform) -> None:
    small.register()
    small.register()
    with pytest.raises(NotFound, match="no alias 'champion'"):
        small.deploy()
    small.promote_model(2)
    small.promote_model(1, alias="other")
    assert small.deploy().endpoint.revisions[0].version == 2
    assert small.deploy(alias="other").endpoint.revisions[-1].version == 1
    with pytest.raises(Invalid, match="not by both"):
        small.deploy(1, alias="other")


def test_a_canary_an_arm_and_a_shadow_stand_beside_what_is_there(small: Platform) -> None:
    small.deployed()
    small.register()
    assert shares(small.deploy(2, mode="canary").endpoint) == {1: 9_000, 2: 1_000}
    assert shares(small.deploy(2, mode="ab", share=5_000, label="b").endpoint) == {1: 4_500, 2: 500, 3: 5_000}
    shadow = small.deploy(2, mode="shadow", share=2_000).endpoint
    assert shadow.arms[-1] == Arm(revision=4, share=2_000, role="shadow")
    assert sum(arm.share for arm in shadow.arms if arm.role == "live") == 10_000
    assert shares(small.deploy(2).endpoint) == {5: 10_000}


def test_nothing_can_be_shadowed_before_something_answers(small: Platform) -> None:
    small.register()
    with pytest.raises(Conflict, match="nothing to shadow"):
        small.deploy(1, mode="shadow")
    with pytest.raises(NotFound):
        small.show()


def test_options_left_out_stay_as_they_are(small: Platform) -> None:
    small.register()
    small.deploy(1, options=Options(latency_ms=20, masked=("age",)))
    assert small.deploy(1).endpoint.options == Options(latency_ms=20, masked=("age",))
    request = declared.Configure(project=PROJECT, endpoint="scores", options=Options(nan="refuse"))
    before = small.show().serial
    after = small.call(declared.CONFIGURE, request)
    assert after.options == Options(nan="refuse")
    assert after.serial > before


def test_a_version_that_cannot_be_served_says_why_and_what_to_do(small: Platform) -> None:
    small.register(files={"model.pkl": pickle.dumps({"weights": [1.0, 2.0]})})
    with pytest.raises(Conflict, match="xport the model to ONNX") as refused:
        small.deploy(1)
    assert "cannot be served as it is" in str(refused.value)


def test_only_the_files_that_the_model_needs_are_served(small: Platform) -> None:
    parts = {name: (MODELS / name).read_bytes() for name in ("outside.onnx", "outside.onnx.data")}
    small.register(files=parts | {"notes.txt": b"hello"})
    small.deploy(1)
    (endpoint,) = small.plane().state().endpoints
    assert [file.name for file in endpoint.revisions[0].files] == ["outside.onnx", "outside.onnx.data"]


def test_the_columns_of_the_signature_go_with_the_revision(small: Platform) -> None:
    signed = MLMODEL.split(b"signature:")[0] + (
        b'signature:\n  inputs: \'[{"type": "double", "name": "age", "required": true}, '
        b'{"type": "long", "name": "visits", "required": true}]\'\n  outputs: \'[]\'\n  params: null\n'
    )
    small.register(files={"model.onnx": ONNX, "MLmodel": signed})
    small.deploy(1)
    (endpoint,) = small.plane().state().endpoints
    assert [(column.name, column.type) for column in endpoint.revisions[0].columns] == [("age", "double"), ("visits", "long")]


def test_a_revision_outlives_the_version_it_came_from(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    platform.call(versions.DELETE_VERSION, versions.OneVersion(project=PROJECT, model="fraud", version=1))
    (endpoint,) = plane.state().endpoints
    assert plane.fetch(endpoint.revisions[0].id, "model.onnx") == ONNX


def test_rolling_back_goes_through_the_splits_one_by_one(platform: Platform) -> None:
    platform.deployed(2)
    platform.split(live(1, 4_000), live(2, 6_000))
    assert platform.show().back_to == 2
    assert shares(platform.roll_back(reason="worse")) == {2: 10_000}
    back = platform.roll_back()
    assert (shares(back), back.back_to) == ({1: 10_000}, 0)
    with pytest.raises(Conflict, match="no earlier split"):
        platform.roll_back()
    told = [(change.kind, change.reason, change.by.name if change.by else "") for change in platform.history()]
    assert told == [
        ("deploy", "", "owner"),
        ("deploy", "", "owner"),
        ("split", "", "owner"),
        ("rollback", "worse", "owner"),
        ("rollback", "", "owner"),
    ]
    assert [change.before for change in platform.history()[1:]] == [change.arms for change in platform.history()[:-1]]


def test_promoting_gives_everything_to_the_newest_that_has_a_part(small: Platform) -> None:
    small.deployed()
    small.register()
    small.deploy(2, mode="canary")
    assert shares(small.promote()) == {2: 10_000}
    assert shares(small.promote(1)) == {1: 10_000}
    with pytest.raises(Invalid, match="no revision 7"):
        small.promote(7)


def test_the_same_split_again_is_no_change(small: Platform) -> None:
    small.deployed()
    before = small.show().serial
    assert small.split(live(1)).serial == before
    assert len(small.history()) == 1


def test_a_deleted_endpoint_is_gone_and_its_name_is_free(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    before = plane.signed().serial
    platform.call(declared.DELETE_ENDPOINT, declared.OneEndpoint(project=PROJECT, endpoint="scores"))
    with pytest.raises(NotFound):
        platform.show()
    assert plane.signed().serial > before
    assert plane.state().endpoints == ()
    assert platform.deploy(1).revision == 1


def test_an_endpoint_stays_in_its_zone(small: Platform) -> None:
    small.project("abroad", "home", "berlin")
    small.register(project="abroad")
    small.deploy(1, project="abroad", zone="berlin")
    assert small.show(project="abroad").zone == "berlin"
    with pytest.raises(Conflict, match="answers in zone 'berlin'"):
        small.deploy(1, project="abroad", zone="home")
    small.register()
    with pytest.raises(Forbidden) as refused:
        small.deploy(1, zone="berlin")
    assert refused.value.rule == "residency.target-zone"


def test_steps_belong_to_a_canary(small: Platform) -> None:
    small.deployed()
    with pytest.raises(Invalid, match="for a canary"):
        small.deploy(1, steps=Steps(shares=(10_000,)))
    made = small.deploy(1, mode="canary", steps=Steps(shares=(500, 5_000, 10_000), seconds=60)).endpoint
    assert (shares(made), made.step) == ({1: 9_500, 2: 500}, 1)
    assert made.next_step is not None
    assert small.promote().next_step is None


def test_the_lineage_leads_from_the_version_to_the_endpoint(small: Platform) -> None:
    version = small.register()
    endpoint = small.deploy(1).endpoint
    graph = small.call(SHOW_GRAPH, ShowGraph(project=PROJECT, kind="version", id=version.id, direction="down"))
    assert ("endpoint", endpoint.id, "scores") in {(node.kind, node.id, node.label) for node in graph.nodes}


def test_the_leaf_says_which_version_answers_and_by_which_change(small: Platform) -> None:
    version = small.register()
    endpoint = small.deploy(1, reason="said in confidence").endpoint
    (leaf,) = small.leaves("endpoint.deploy")
    assert leaf.facts["version"] == version.id
    assert leaf.facts["endpoint"] == endpoint.id
    assert leaf.facts["change"] == small.history()[0].id
    assert "confidence" not in repr(leaf)


def test_lists_come_page_by_page(small: Platform) -> None:
    small.register()
    for name in ("a", "b", "c"):
        small.deploy(1, name)
        small.deploy(1, name)
    first = small.call(declared.LIST_ENDPOINTS, declared.ListEndpoints(project=PROJECT, limit=2))
    rest = small.call(declared.LIST_ENDPOINTS, declared.ListEndpoints(project=PROJECT, limit=2, cursor=first.next))
    assert [[one.name for one in page.items] for page in (first, rest)] == [["a", "b"], ["c"]]
    newest = small.call(declared.READ_REVISIONS, declared.ReadRevisions(project=PROJECT, endpoint="a", limit=1))
    older = small.call(
        declared.READ_REVISIONS, declared.ReadRevisions(project=PROJECT, endpoint="a", limit=1, cursor=newest.next)
    )
    assert [page.items[0].number for page in (newest, older)] == [2, 1]
    latest = small.call(declared.READ_CHANGES, declared.ReadChanges(project=PROJECT, endpoint="a", limit=1))
    assert latest.items[0].arms == (live(2),)
    assert latest.next


# Policy


def approve(platform: Platform, number: int, validator: str) -> None:
    waiting = platform.promote_model(number)
    given = promotions.GiveApproval(project=PROJECT, approval=waiting.approval)
    platform.call(promotions.GIVE_APPROVAL, given, validator)
    assert platform.promote_model(number).state == "done"


@pytest.mark.parametrize("profile", ["team", "regulated"])
def test_under_four_eyes_only_what_somebody_else_approved_answers(opener: Opener, profile: str) -> None:
    platform = opener(profile)
    validator = platform.person("vera", Role.VALIDATOR)
    platform.register()
    with pytest.raises(Forbidden, match="nobody approved it") as refused:
        platform.deploy(1)
    assert refused.value.rule == "deployment.four-eyes"
    approve(platform, 1, validator)
    platform.deploy()
    platform.register()
    for mode in ("live", "canary", "ab"):
        with pytest.raises(Forbidden):
            platform.deploy(2, mode=mode)
    shadow = platform.deploy(2, mode="shadow").endpoint
    with pytest.raises(Forbidden):
        platform.promote(shadow.arms[-1].revision)
    with pytest.raises(Forbidden):
        platform.split(live(1, 9_999), live(shadow.arms[-1].revision, 1))
    approve(platform, 2, validator)
    assert shares(platform.promote(shadow.arms[-1].revision)) == {shadow.arms[-1].revision: 10_000}
    # Version 1 is champion no more, but it was, through an approval.
    assert shares(platform.promote(1)) == {1: 10_000}


@pytest.fixture(params=["team", "regulated"])
def guarded(opener: Opener, request: pytest.FixtureRequest) -> tuple[Platform, str]:
    """A champion that answers, a second version that nobody approved, and whoever may approve."""
    platform = opener(request.param)
    validator = platform.person("vera", Role.VALIDATOR)
    platform.register()
    approve(platform, 1, validator)
    platform.deploy()
    platform.register()
    return platform, validator


def ask(platform: Platform, number: int = 2) -> promotions.Promotion:
    request = promotions.Promote(project=PROJECT, model="fraud", version=number)
    return platform.call(promotions.ASK_APPROVAL, request)


GROWING = {"mode": "canary", "share": 1_000, "steps": Steps(shares=(1_000, 10_000), seconds=60)}


def test_what_is_approved_for_production_may_be_tried_before_the_alias_moves(guarded: tuple[Platform, str]) -> None:
    platform, validator = guarded
    waiting = ask(platform)
    with pytest.raises(Forbidden, match="nobody approved it"):
        platform.deploy(2, **GROWING)
    platform.call(promotions.GIVE_APPROVAL, promotions.GiveApproval(project=PROJECT, approval=waiting.approval), validator)
    assert shares(platform.deploy(2, **GROWING).endpoint) == {1: 9_000, 2: 1_000}
    platform.register()
    with pytest.raises(Forbidden, match="nobody approved it"):  # it was good for one version
        platform.deploy(3, **GROWING)
    moved = platform.promote_model(2)
    assert (moved.state, moved.approval) == ("done", waiting.approval)


@pytest.mark.parametrize("how", ["refused", "withdrawn", "expired", "disabled", "rule", "gate", "other-alias"])
def test_an_approval_by_which_no_alias_would_move_brings_no_traffic(guarded: tuple[Platform, str], how: str) -> None:
    platform, validator = guarded
    alias = "challenger" if how == "other-alias" else "champion"
    waiting = platform.promote_model(2, alias=alias)
    given = promotions.GiveApproval(project=PROJECT, approval=waiting.approval or "0" * 32)
    if waiting.state == "waiting":
        platform.call(promotions.GIVE_APPROVAL, given, validator)
    elif platform.app.profile.name == "team":
        assert waiting.state == "done"  # no alias that needs four eyes: it says nothing
    if how == "refused":
        platform.call(promotions.REFUSE_APPROVAL, given, validator)
    elif how == "withdrawn":
        platform.call(promotions.WITHDRAW_APPROVAL, promotions.OneApproval(project=PROJECT, approval=waiting.approval))
    elif how == "expired":
        platform.clock.forward(8 * DAY)
    elif how == "disabled":
        platform.call(identity.DISABLE_USER, identity.OneUser(user="vera"))
    elif how == "rule":
        platform.policy(
            'forbid (principal, action == Action::"model.promote", resource) '
            "when { context has promotion && context.promotion.approvals < 2 };"
        )
    elif how == "gate":
        signed = Gate(name="signed", kind="signature")
        required = Requirement(alias="champion", gates=("signed",))
        platform.call(APPLY_GATES, ApplyGates(project=PROJECT, gates=(signed,), require=(required,)))
    if how == "other-alias" and platform.app.profile.name == "regulated":
        assert shares(platform.deploy(2, **GROWING).endpoint) == {1: 9_000, 2: 1_000}  # there every alias needs them
        return
    with pytest.raises(Forbidden) as refused:
        platform.deploy(2, **GROWING)
    assert refused.value.rule == "deployment.four-eyes"


def test_who_may_not_promote_deploys_nothing_by_a_promotion_that_is_only_approved(guarded: tuple[Platform, str]) -> None:
    platform, validator = guarded
    given = promotions.GiveApproval(project=PROJECT, approval=ask(platform).approval)
    platform.call(promotions.GIVE_APPROVAL, given, validator)
    platform.policy('forbid (principal, action == Action::"model.promote", resource) when { context has promotion };')
    with pytest.raises(Forbidden):
        platform.deploy(2, **GROWING)


def test_going_back_is_always_allowed(opener: Opener) -> None:
    platform = opener("team")
    validator = platform.person("vera", Role.VALIDATOR)
    for number in (1, 2):
        platform.register()
        approve(platform, number, validator)
        platform.deploy()
    assert shares(platform.roll_back()) == {1: 10_000}


def test_a_project_adds_its_own_rules_of_deployment(small: Platform) -> None:
    small.policy(
        """forbid (principal, action == Action::"endpoint.deploy", resource)
        when { context has deployment && context.deployment.model == "fraud" && context.deployment.share > 2000 };"""
    )
    small.register()
    with pytest.raises(Forbidden) as refused:
        small.deploy(1)
    assert refused.value.rule == "project/added"


def test_a_canary_that_grows_is_asked_about_as_what_it_becomes(small: Platform) -> None:
    small.deployed()
    small.policy(
        """forbid (principal, action == Action::"endpoint.deploy", resource)
        when { context has deployment && context.deployment.share > 2000 };"""
    )
    small.deploy(1, mode="canary", share=1_000)
    with pytest.raises(Forbidden):
        small.deploy(1, mode="canary", steps=Steps(shares=(500, 10_000)))


def test_who_may_not_deploy_cannot(small: Platform) -> None:
    small.deployed(2)
    scientist = small.person("sam", Role.SCIENTIST)
    for attempt in (small.promote, small.roll_back):
        with pytest.raises(Forbidden):
            attempt(token=scientist)
    assert small.show(token=scientist).name == "scores"


def test_another_projects_endpoint_looks_like_none(small: Platform) -> None:
    small.deployed()
    small.project("other")
    stranger = small.person("nora", Role.ADMIN, project="other")
    for project in ("default", "nowhere"):
        with pytest.raises(NotFound, match=f"no project '{project}'"):
            small.show(token=stranger, project=project)
    with pytest.raises(NotFound, match="no endpoint 'scores' here"):
        small.show(token=stranger, project="other")
