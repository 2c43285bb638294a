"""When a study is over, decided from its trials alone."""

from collections.abc import Collection, Sequence
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.search.studies import Objective, Trial, front

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
        if self.trials < 1 or self.parallel < 1 or self.patience < 0 or self.seconds < 0:
            raise Invalid("A study has at least one trial, one at a time; patience and time are not negative.")


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
