"""What people fill in about monitors, and the wishes that come of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.monitoring.operations.monitors import APPLY_MONITOR, ApplyMonitor, Wishes
from falaj.monitoring.operations.words import Act, Objective
from falaj.web.bodies import Fields
from falaj.web.forms import FormState, Mistyped
from falaj.web.monitoring.fields import application, rows_shown

HERE = {"project": "fraud", "endpoint": "scores"}


def applied(path: dict[str, str] = HERE, **fields: str | list[str]) -> ApplyMonitor:
    made: ApplyMonitor = application(APPLY_MONITOR, typed(**fields), path)
    return made


def typed(**fields: str | list[str]) -> Fields:
    return {name.replace("_row_", "-"): given if isinstance(given, list) else [given] for name, given in fields.items()}


def test_what_is_left_blank_is_as_it_is_by_default() -> None:
    blank = dict.fromkeys(
        ("reference", "window", "floor", "season", "escalate_after", "remind_after", "ignore", "do_row_0"), ""
    )
    assert applied(**blank).wishes == Wishes()
    assert applied({"project": "fraud"}, endpoint="scores") == ApplyMonitor(project="fraud", endpoint="scores")


def test_minutes_hours_and_lines_become_what_the_monitor_wants() -> None:
    made = applied(
        reference="payments@3",
        window="300",
        floor="0.2",
        ignore="id\r\n card number \r\n\r\n",
        channels=["on-call", "desk"],
        escalate_to=["boss"],
        escalate_after="1.5",
        remind_after="0",
        relearn="true",
    )
    wishes = made.wishes
    assert (wishes.reference, wishes.window, wishes.floor) == ("payments@3", 300, 0.2)
    assert wishes.ignore == ("id", "card number")
    assert (wishes.channels, wishes.escalate_to) == (("on-call", "desk"), ("boss",))
    assert (wishes.escalate_after, wishes.remind_after, made.relearn) == (90, 0, True)


def test_rows_become_actions_and_objectives_and_empty_ones_are_left_out() -> None:
    made = applied(
        do_row_0="roll-back",
        on_row_0=["drift", "quality"],
        cooldown_row_0="30",
        most_row_0="2",
        approval_row_0="true",
        do_row_1="",
        do_row_2="retrain",
        on_row_2=["drift"],
        job_row_2="0" * 32,
        kind_row_0="latency",
        percent_row_0="99.5",
        milliseconds_row_0="50",
        days_row_0="7",
        kind_row_1="",
    )
    assert made.wishes.actions == (
        Act(do="roll-back", on=("drift", "quality"), cooldown=1800, most=2, approval=True),
        Act(do="retrain", on=("drift",), job="0" * 32),
    )
    assert made.wishes.objectives == (Objective(kind="latency", share=0.995, milliseconds=50, days=7),)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"window": "0"}, "window"),
        ({"floor": "2"}, "floor"),
        ({"season": "moon"}, "season"),
        ({"channels": ["Not A Name"]}, "channels"),
        ({"escalate_after": "soon"}, "escalate_after"),
        ({"remind_after": "nan"}, "remind_after"),
        ({"remind_after": "1e300"}, "remind_after"),
        ({"do_row_3": "explode", "on_row_3": ["drift"]}, "do-3"),
        ({"do_row_3": "roll-back"}, "on-3"),
        ({"do_row_3": "roll-back", "on_row_3": ["drift"], "most_row_3": "0"}, "most-3"),
        ({"kind_row_1": "latency", "percent_row_1": "most"}, "percent-1"),
        ({"kind_row_1": "latency", "percent_row_1": "200"}, "percent-1"),
        ({"kind_row_1": "latency", "percent_row_1": "99", "days_row_1": "99"}, "days-1"),
    ],
)
def test_a_mistake_is_told_beside_the_field_it_is_in(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(Mistyped) as error:
        applied(**wrong)
    assert list(error.value.fields) == [field]


@given(
    st.dictionaries(st.sampled_from(["do-0", "kind-0", "do-x", "do-²", "window", "percent-0", "do-99999"]), st.text(max_size=8))
)
def test_whatever_is_typed_is_wishes_or_a_mistake(texts: dict[str, str]) -> None:
    try:
        made = application(APPLY_MONITOR, {name: [text] for name, text in texts.items()}, HERE)
    except Mistyped:
        return
    assert isinstance(made, ApplyMonitor)


def test_a_form_that_comes_back_has_the_rows_that_were_typed_and_a_fresh_one_an_empty_one_more() -> None:
    fresh = FormState(action="", key="", values={}, problems={})
    assert rows_shown(fresh, "do", 2) == [0, 1, 2]
    back = FormState(action="", key="", values=typed(do_row_0="x", do_row_4="", kind_row_1=""), problems={})
    assert rows_shown(back, "do", 2) == [0, 4]
