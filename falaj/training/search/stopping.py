"""When a study is over, decided from its trials alone."""

from collections.abc import Collection, Sequence
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.search.spaces import is_number
from falaj.training.search.studies import Objective, Trial, front

MOST_TRIALS: Final = 1_000_000
MOST_AT_ONCE: Final = 1000
_MOST_SECONDS: Final = 10 * 365 * 86_400
FAILURES: Final = 3  # that, with nothing else, say that all will fail


@value
class Limits:
    """0 and None say nothing. `patience` counts trials after the best one; `seconds` from when one begins to look."""

    trials: int = 20
    patience: int = 0
    seconds: float = 0.0
    target: float | None = None
    parallel: int = 1

    def __post_init__(self) -> None:
        whole = {"trials": (1, MOST_TRIALS), "parallel": (1, MOST_AT_ONCE), "patience": (0, MOST_TRIALS)}
        for name, (least, most) in whole.items():
            if type(number := getattr(self, name)) is not int or not least <= number <= most:
                raise Invalid(f"The limit {name} is a whole number from {least} to {most:,}, not {number!r}.")
        if not is_number(self.seconds) or not 0 <= self.seconds <= _MOST_SECONDS:
            raise Invalid(f"The time of a study is from 0 to {_MOST_SECONDS:,} seconds, not {self.seconds!r}.")
        if self.target is not None and not is_number(self.target):
            raise Invalid(f"The target is a number, not {self.target!r}.")

    def __str__(self) -> str:
        """As a study goes on until it."""
        ends = [f"{self.trials:,} trials were begun, {self.parallel:,} at once"]
        ends += [f"{self.patience:,} in a row were no better"] if self.patience else []
        ends += [f"{self.seconds:,.0f} s have gone by"] if self.seconds else []
        ends += [f"the target {self.target:g} is reached"] if self.target is not None else []
        return ", or ".join(ends)


@value
class Verdict:
    """`at_once`: what runs is stopped, too. Without words, the study goes on."""

    words: str = ""
    at_once: bool = False
    hopeless: bool = False


def decide(
    objectives: Sequence[Objective], limits: Limits, trials: Collection[Trial], elapsed: float, earlier: Collection[int] = ()
) -> Verdict:
    """`earlier` are the numbers of trials that had ended when one began to look: what failed then may be mended now."""
    ended = [one for one in trials if one.state != "running"]
    if hopeless := _hopeless(ended, earlier):
        return Verdict(words=hopeless, at_once=True, hopeless=True)
    best = front(objectives, trials)
    if limits.target is not None and best and len(objectives) == 1:
        reached = best[0].values[0]
        if reached == limits.target or objectives[0].better(reached, limits.target):
            return Verdict(words=f"{objectives[0].metric} {reached:g} has reached the target {limits.target:g}.", at_once=True)
    if limits.seconds and elapsed >= limits.seconds:
        return Verdict(words="Its time is up.", at_once=True)
    if limits.patience and best:
        latest = max(one.number for one in best)
        since = sum(1 for one in ended if one.number > latest and one.state in ("complete", "pruned"))
        if since >= limits.patience:
            return Verdict(words=f"{since} trials in a row were no better than trial {latest}.")
    if len(trials) >= limits.trials:
        return Verdict(words=f"All {limits.trials} trials were begun.")
    return Verdict()


def _hopeless(ended: Sequence[Trial], earlier: Collection[int]) -> str:
    """A study whose first trials all fail burns its share of the queue for nothing."""
    failed = [one for one in ended if one.number not in earlier]
    if len(failed) < FAILURES or any(one.state != "failed" for one in ended):
        return ""
    said = dict.fromkeys(one.words for one in failed if one.words)
    return f"{len(failed)} trials failed, and none went well: {' / '.join(list(said)[:FAILURES])}"
