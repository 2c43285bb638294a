"""falaj.against_champion: what a few rows make look better is told from what is better."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.client.pipelines import judging
from falaj.client.pipelines.kinds import ModelVersion
from falaj.statistics.noninferiority import of_shares

OLD, NEW = ModelVersion(model="late", version=1), ModelVersion(model="late", version=2)
Judge = Callable[..., dict[str, Any]]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Of the values of both; who the champion is, and what was brought out, is the platform's to say."""

    def judged(now: Any, before: Any, champion: ModelVersion | None = OLD, *, marked: bool = False) -> dict[str, Any]:
        monkeypatch.setattr(judging, "champion_of", lambda _model, _alias: champion)
        monkeypatch.setattr(judging, "_was_brought_out", lambda _model: marked)
        return judging.against_champion(NEW, lambda one: {"accuracy": now if one == NEW else before})

    return judged


def right(count: int, of: int) -> Any:
    return np.arange(of) < count


def test_a_few_rows_more_are_no_gain_that_is_sure(judge: Judge):
    before = right(360, 400)
    now = before.copy()
    now[[0, 1, 2, 398, 397, 396, 395, 394]] ^= True
    judged = judge(now, before)
    assert (judged["figures"], judged["champion"]) == ({"accuracy": 0.905}, {"accuracy": 0.9})
    assert judged["gain"]["accuracy"] == pytest.approx(0.005)
    assert judged["surely"] == {"accuracy": -of_shares(400, 3, 5, margin=0.0, confidence=0.95).high}
    assert -0.02 < judged["surely"]["accuracy"] < 0


def test_what_is_much_better_is_surely_better(judge: Judge):
    assert judge(right(380, 400), right(340, 400))["surely"]["accuracy"] > 0.07


def test_the_first_version_gains_on_none_and_the_champion_itself_is_not_new(judge: Judge):
    first = judge(right(360, 400), None, champion=None)
    assert first == {
        "figures": {"accuracy": 0.9},
        "told": {"accuracy": "0.9"},
        "champion": None,
        "gain": {"accuracy": None},
        "surely": {"accuracy": 0.9},
        "is_new": True,
    }
    same = judge(right(360, 400), None, champion=NEW)
    assert (same["is_new"], same["gain"]["accuracy"]) == (False, 0.0)


def test_what_was_brought_out_before_is_not_new_however_good_it_is(judge: Judge):
    judged = judge(right(380, 400), right(340, 400), marked=True)
    assert (judged["is_new"], judged["surely"]["accuracy"] > 0.07) == (False, True)


def test_values_need_not_be_yes_or_no(judge: Judge):
    chance = np.random.default_rng(1)
    truth = chance.normal(size=500)
    now, before = (-abs(chance.normal(0, spread, 500)) + 0 * truth for spread in (0.5, 1.0))
    judged = judge(now, before)
    assert 0.2 < judged["surely"]["accuracy"] < judged["gain"]["accuracy"]


def test_a_figure_alone_is_refused_as_are_rows_that_differ(judge: Judge):
    with pytest.raises(Invalid, match="accuracy is no list of values, one for each row"):
        judge(0.9, 0.8)
    with pytest.raises(Invalid, match="accuracy has 400 values of the version and 399 of the champion"):
        judge(right(360, 400), right(360, 399))
