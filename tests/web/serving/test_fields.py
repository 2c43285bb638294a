"""What people fill in about endpoints, and the requests that come of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.operations.endpoints import CONFIGURE, DEPLOY_REVISION, SPLIT_TRAFFIC, Deploy, Options
from falaj.serving.operations.words import WHOLE, Arm, Steps
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped
from falaj.web.serving.fields import configuration, deployment, percent, split

HERE = {"project": "fraud", "endpoint": "scores"}
VERSION = {"project": "fraud", "id": "0" * 32}


def fields(**texts: str) -> Fields:
    return {name.replace("_of_", "-"): [text] for name, text in texts.items()}


def deployed(**texts: str) -> Deploy:
    given = fields(endpoint="scores", model="m", version="2", _csrf="x", **texts)
    return deployment(DEPLOY_REVISION, given, VERSION)  # type: ignore[no-any-return]


def test_per_cent_become_shares_and_steps_where_the_mode_has_them() -> None:
    canary = deployed(mode="canary", percent="2.5", steps="2.5, 50, 100 ", minutes="1.5", reason="better")
    assert (canary.share, canary.steps) == (250, Steps(shares=(250, 5_000, WHOLE), seconds=90))
    assert (canary.endpoint, canary.model, canary.version, canary.reason) == ("scores", "m", 2, "better")
    live = deployed(mode="live", percent="nonsense", steps="5, 100", minutes="nonsense")
    assert (live.mode, live.steps) == ("live", Steps())
    assert deployed(mode="shadow", percent="100").share == WHOLE
    assert deployed(mode="ab", percent="").share == 1_000


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"mode": "canary", "percent": "101"}, "percent"),
        ({"mode": "canary", "percent": "-1"}, "percent"),
        ({"mode": "ab", "percent": "nan"}, "percent"),
        ({"mode": "shadow", "percent": "1e999"}, "percent"),
        ({"mode": "canary", "percent": "5", "steps": "5, many"}, "steps"),
        ({"mode": "canary", "percent": "5", "steps": "5, 100", "minutes": "soon"}, "minutes"),
        ({"mode": "canary", "percent": "5", "steps": "5, 100", "minutes": "inf"}, "minutes"),
        ({"mode": "canary", "percent": "5", "steps": "5, 100", "minutes": "0"}, "minutes"),
        ({"mode": "canary", "percent": "5", "steps": ",".join(["1"] * 30)}, "steps"),
        ({"mode": "sideways"}, "mode"),
        ({"mode": "live", "label": "<b>"}, "label"),
        ({"mode": "live", "anything": "else"}, "anything"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field(wrong: dict[str, str], field: str) -> None:
    with pytest.raises(Mistyped) as told:
        deployed(**wrong)
    assert set(told.value.fields) == {field}


def test_rows_of_the_form_become_arms_and_empty_ones_are_left_out() -> None:
    given = fields(share_of_1="90", role_of_1="live", share_of_2="10", role_of_2="live", label_of_2="new", share_of_3="50")
    given |= fields(role_of_3="shadow", share_of_4="", share_of_5="0", reason="why not")
    asked = split(SPLIT_TRAFFIC, given, HERE)
    assert asked.arms == (
        Arm(revision=1, share=9_000),
        Arm(revision=2, share=1_000, label="new"),
        Arm(revision=3, share=5_000, role="shadow"),
    )
    assert (asked.project, asked.endpoint, asked.reason) == ("fraud", "scores", "why not")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (fields(share_of_1="90"), "arms"),
        (fields(), "arms"),
        (fields(share_of_1="50", share_of_2="many"), "share-2"),
        ({"share-x": ["100"]}, "arms"),
        ({"share-1": ["100"], "role-1": ["boss"]}, "arms"),
        ({"share-1": ["100"], "label-1": ["<script>"]}, "arms"),
    ],
)
def test_a_split_that_is_none_is_refused_before_it_is_asked_for(given: Fields, field: str) -> None:
    with pytest.raises(Mistyped) as told:
        split(SPLIT_TRAFFIC, given, HERE)
    assert set(told.value.fields) == {field}


def test_options_hold_columns_with_any_name_one_on_each_line() -> None:
    given = fields(
        latency_ms="20", nan="refuse", masked="card number\n\n  a, b \n", log_percent="0.5", callbacks="", device="gpu"
    )
    wanted = Options(latency_ms=20, nan="refuse", masked=("card number", "a, b"), log_share=50, device="gpu")
    assert configuration(CONFIGURE, given, HERE).options == wanted


def test_a_wrong_option_is_told_beside_its_field() -> None:
    for name, text in {"latency_ms": "0", "nan": "maybe", "log_percent": "200", "idle_seconds": "x"}.items():
        with pytest.raises(Mistyped) as told:
            configuration(CONFIGURE, fields(**{name: text}), HERE)
        assert set(told.value.fields) == {name}


@given(st.integers(min_value=0, max_value=WHOLE))
def test_a_share_that_is_shown_and_sent_back_is_the_same(share: int) -> None:
    asked = deployed(mode="ab", percent=percent(share).removesuffix(" %"))
    assert asked.share == share
