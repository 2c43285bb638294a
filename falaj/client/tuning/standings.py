"""How far a study is, from its tags and its trials: for lists, where nobody leads it."""

from collections.abc import Sequence

from falaj.base.values import value
from falaj.client.tuning.records import Kept
from falaj.training.search import spaces
from falaj.training.search.studies import Trial


@value
class Standing:
    """`over` of the `most` trials that it may have. `words` say why it ended, where it did."""

    state: str
    over: int
    most: int
    words: str = ""

    def __str__(self) -> str:
        return f"{self.state}, {self.over} of {self.most} trials"


def standing(kept: Kept, trials: Sequence[Trial]) -> Standing:
    """`interrupted`: nobody ended it, and nothing of it runs; `waiting`: no trial was begun yet."""
    over, most = sum(one.state != "running" for one in trials), kept.limits.trials
    if kept.study.sampler == "grid":
        most = min(most, spaces.grid_size(kept.study.space))
    most = max(most, len(trials))  # where fewer are wished for than were begun
    if over < len(trials):
        return Standing(state="running", over=over, most=most)
    if kept.stopped:
        return Standing(state="stopped", over=over, most=most)
    if kept.ended is not None:
        return Standing(state=kept.ended.state, over=over, most=most, words=kept.ended.words)
    return Standing(state="interrupted" if trials else "waiting", over=over, most=most)
