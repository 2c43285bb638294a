"""What a monitor is to do, as people write it: read from options and files, merged, refused with the name of what is wrong."""

from dataclasses import fields
from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.cli.monitor_wishes import action_of, bound_of, changes, in_few_words, merged, objective_of, wishes_in
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act, Objective, QualityBound

WHOLE = """
reference = "payments@3"
time = "at"
ignore = ["id"]
window = "5m"
learn_rows = 20000
floor = 0.2
one_in = 500
season = "hour"
timezone = "Asia/Dubai"
quiet = 3
channels = ["team"]
escalate_to = ["boss"]
escalate_after = "30m"
remind_after = 3600

[[actions]]
do = "retrain"
on = ["drift", "quality"]
job = "0199a1b2c3d4e5f60718293a4b5c6d7e"
cooldown = "1d"
most = 2
approval = true

[[objectives]]
kind = "availability"
share = "99.9%"

[[objectives]]
kind = "latency"
share = 0.99
milliseconds = 100
days = 7

[[quality]]
figure = "gap"
slice = "region"
side = "at most"
limit = 0.1
positive = "yes"
"""


def written(folder: Path, text: str) -> str:
    (folder / "monitor.toml").write_text(text)
    return str(folder / "monitor.toml")


def test_a_file_can_say_everything_there_is_to_wish(tmp_path: Path) -> None:
    found = wishes_in(written(tmp_path, WHOLE))
    assert set(found) == {field.name for field in fields(Wishes)}
    made = merged(None, found, {})
    assert (made.window, made.escalate_after, made.remind_after) == (300, 1800, 3600)
    assert made.actions == (
        Act(
            do="retrain",
            on=("drift", "quality"),
            job="0199a1b2c3d4e5f60718293a4b5c6d7e",
            cooldown=86_400,
            most=2,
            approval=True,
        ),
    )
    assert made.objectives == (
        Objective(kind="availability", share=0.999),
        Objective(kind="latency", share=0.99, milliseconds=100, days=7),
    )


def test_options_win_over_the_file_and_what_neither_names_stays(tmp_path: Path) -> None:
    before = Wishes(floor=0.3, quiet=9, channels=("team",))
    file = wishes_in(written(tmp_path, "floor = 0.2\nwindow = 30\n"))
    after = merged(before, file, {"window": 10, "channels": ()})
    assert (after.floor, after.quiet, after.window, after.channels) == (0.2, 9, 10, ())
    assert changes(before, after) == [("window", "60", "10"), ("floor", "0.3", "0.2"), ("channels", "team", "none")]
    assert changes(after, after) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flor = 0.2", "has 'flor', which means nothing here; there are reference, time, "),
        ("[[actions]]\ndo = 'roll-back'\nwhen = 'now'", "actions has 'when', which means nothing here; there are do, on, "),
        ("[[actions]]\ndo = 'explode'", "actions.0.do"),
        ("actions = 'roll-back'", r"write each of the actions as a table of its own: \[\[actions\]\]"),
        ("[[objectives]]\nkind = 'availability'\nshare = 'most'", "'most' is no share for share"),
        ("floor = 7", "floor may be at most 1.0, and is 7"),
        ("window = 'soon'", "'soon' is no length of time"),
        ("floor = ", "is no TOML"),
        ("ignore = 'id'", "ignore"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        wishes_in(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("availability=99.9%", Objective(kind="availability", share=0.999)),
        ("availability=0.95", Objective(kind="availability", share=0.95)),
        ("latency=99%@100ms", Objective(kind="latency", share=0.99, milliseconds=100)),
        ("latency=99 % @ 100ms / 7d", Objective(kind="latency", share=0.99, milliseconds=100, days=7)),
    ],
)
def test_an_objective_is_written_in_one_word_and_told_in_the_same(text: str, objective: Objective) -> None:
    assert objective_of(text) == objective
    assert objective_of(in_few_words(objective)) == objective


@pytest.mark.parametrize("text", ["availability", "latency=99%", "availability=99%@3ms", "speed=9%", "availability=1.2.3%"])
def test_what_is_no_objective_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(Invalid, match=r"availability=99.9%|no share for availability"):
        objective_of(text)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("auc>=0.8", QualityBound(figure="auc", side="at least", limit=0.8)),
        ("gap(region) <= 0.1", QualityBound(figure="gap", side="at most", limit=0.1, slice="region")),
        ("mean spent>=-3.5/30d", QualityBound(figure="mean spent", side="at least", limit=-3.5, days=30)),
    ],
)
def test_a_bound_is_written_in_one_word_and_told_in_the_same(text: str, bound: QualityBound) -> None:
    assert bound_of(text) == bound
    assert bound_of(in_few_words(bound)) == bound


@pytest.mark.parametrize("text", ["auc", "auc=0.8", "auc>=high", "gap(region>=1", "auc>=0.8/0d", "auc>=nan"])
def test_what_is_no_bound_is_told_with_what_is_wrong(text: str) -> None:
    with pytest.raises(Invalid, match=r"is no bound; write it like|is no number|days must be at least 1|limit may be"):
        bound_of(text)


def test_an_action_may_say_more() -> None:
    assert action_of("roll-back") == Act(do="roll-back")
    told = action_of("fall-back,on=service+drift,cooldown=2h,most=1,approval,variant=int8")
    assert told == Act(do="fall-back", on=("service", "drift"), cooldown=7200, most=1, approval=True, variant="int8")
    assert in_few_words(told) == "fall-back on=service+drift cooldown=7200 most=1 approval=True variant=int8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("explode", "do must be"),
        ("roll-back,when=now", "'when' means nothing in the action .* there are on, cooldown,"),
        ("roll-back,most=few", "most must be"),
        ("roll-back,on=weather", "on.0 must be"),
        ("roll-back,approval=no", "say `approval` alone"),
    ],
)
def test_what_is_no_action_is_told_by_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        action_of(text)


def test_per_cent_without_its_sign_is_told_as_what_was_probably_meant() -> None:
    with pytest.raises(Invalid, match=r"availability 99.9 is more than all; .* Did you mean 99.9%\?"):
        objective_of("availability=99.9")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": 0}, "--window must be at least 1, and is 0."),
        ({"learn_rows": 5}, "--learn-rows must be at least 100, and is 5."),
        ({"objectives": (Objective(kind="latency", share=0.9, days=31),)}, "--objective may be at most 30, and is 31."),
    ],
)
def test_what_cannot_be_wished_is_told_by_its_option(options: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid) as told:
        merged(None, {}, options)
    assert str(told.value) == words
