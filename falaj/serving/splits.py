"""Who gets which share: pure functions over arms. The live shares always sum to the whole; a shadow's share is apart."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from falaj.base.errors import Conflict, Invalid
from falaj.serving.operations.words import WHOLE, Arm, Label, Steps

MOST_ARMS: Final = 20
Arms: TypeAlias = tuple[Arm, ...]


def read_arms(text: str) -> Arms:
    return msgspec.json.decode(text, type=Arms)


def written(words: Arms | Steps) -> str:
    return msgspec.json.encode(words).decode()


# What must hold


def check(arms: Sequence[Arm], quarantined: Mapping[int, str], endpoint: str) -> Arms:
    """The arms in order of revision. `quarantined` has every revision of the endpoint by number, and why it may not be used."""
    numbers = [arm.revision for arm in arms]
    if unknown := sorted({number for number in numbers if number not in quarantined}):
        raise Invalid(f"Endpoint {endpoint!r} has no revision {unknown[0]}; `falaj endpoint show {endpoint}` lists them.")
    if twice := sorted({number for number in numbers if numbers.count(number) > 1}):
        raise Invalid(f"Revision {twice[0]} is named twice; each has one share, live or as a shadow.")
    if broken := [number for number in numbers if quarantined[number]]:
        raise Conflict(f"Revision {broken[0]} of {endpoint!r} is quarantined: {quarantined[broken[0]]} Deploy another version.")
    if len(arms) > MOST_ARMS:
        raise Invalid(f"{len(arms)} revisions at once are too many; at most {MOST_ARMS} share an endpoint.")
    total = sum(arm.share for arm in arms if arm.role == "live")
    if total != WHOLE:
        raise Invalid(f"The live shares sum to {total} hundredths of a per cent; they must sum to {WHOLE}.")
    return _in_order(arms)


def check_steps(steps: Steps) -> None:
    shares = steps.shares
    if shares and (any(one >= after for one, after in pairwise(shares)) or shares[-1] != WHOLE):
        raise Invalid(f"The steps {list(shares)} must rise, and end with the whole ({WHOLE}).")
    if shares and shares[0] == 0:
        raise Invalid("The first step gives the canary nothing; start with a share above 0.")


# What deploying and deciding make of a split


def everything_to(revision: int, label: Label = "") -> Arms:
    return (Arm(revision=revision, share=WHOLE, label=label),)


def beside(arms: Arms, revision: int, share: int, label: Label = "") -> Arms:
    """One more live arm with this share, or another share for one that is there; the others keep their proportions."""
    others = [arm for arm in arms if arm.revision != revision]
    live = [arm for arm in others if arm.role == "live"]
    if not live:
        return _in_order((*others, Arm(revision=revision, share=WHOLE, label=label)))
    left = _scaled([arm.share for arm in live], WHOLE - share)
    kept = {arm.revision: part for arm, part in zip(live, left, strict=True)}
    rest = (replace(arm, share=kept.get(arm.revision, arm.share)) for arm in others)
    return _in_order((*rest, Arm(revision=revision, share=share, label=label)))


def shadowed(arms: Arms, revision: int, share: int, label: Label = "") -> Arms:
    if not any(arm.role == "live" for arm in arms):
        raise Conflict("There is nothing to shadow: the endpoint answers with no revision yet. Deploy one with mode `live`.")
    others = (arm for arm in arms if arm.revision != revision)
    return _in_order((*others, Arm(revision=revision, share=share, role="shadow", label=label)))


def without(arms: Arms, revision: int) -> Arms:
    """The others take over in proportion; empty where no live arm is left."""
    others = [arm for arm in arms if arm.revision != revision]
    live = [arm for arm in others if arm.role == "live"]
    if not live:
        return ()
    parts = {arm.revision: part for arm, part in zip(live, _scaled([arm.share for arm in live], WHOLE), strict=True)}
    return _in_order([replace(arm, share=parts.get(arm.revision, arm.share)) for arm in others])


def share_of(arms: Arms, revision: int) -> int:
    """Of the answers: a shadow gives none."""
    return sum(arm.share for arm in arms if arm.revision == revision and arm.role == "live")


def is_live(arms: Arms, revision: int) -> bool:
    """Whether callers get answers from it, if only those who ask for it."""
    return any(arm.revision == revision and arm.role == "live" for arm in arms)


def main_revision(arms: Arms) -> int:
    """The one that most answers come from, the newest of several; 0 where there is none."""
    live = [arm for arm in arms if arm.role == "live"]
    return max(live, key=lambda arm: (arm.share, arm.revision)).revision if live else 0


def in_words(arms: Arms) -> str:
    parts = [f"{arm.share / 100:g} % {'of copies ' if arm.role == 'shadow' else ''}to revision {arm.revision}" for arm in arms]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


# The way back


def previous(done: Sequence[tuple[str, Arms]], usable: Collection[int]) -> Arms:
    """The split to go back to, by the changes (kind and arms) from the first to the last; empty where there is none.

    A rollback takes back the changes since, so that the next one goes further back. The steps of a canary belong to the
    deployment that began it. Splits with a revision that may not be used are passed over.
    """
    line: list[Arms] = []
    for kind, arms in done:
        if kind == "rollback":
            while line and line[-1] != arms:
                line.pop()
        elif kind == "step" and line:
            line.pop()
        if line[-1:] != [arms]:
            line.append(arms)
    now = line.pop() if line else ()
    return next((arms for arms in reversed(line) if arms != now and all(arm.revision in usable for arm in arms)), ())


def _scaled(parts: Sequence[int], whole: int) -> list[int]:
    """Parts in the same proportion that sum to `whole`; what rounding leaves goes to the largest remainders."""
    total = sum(parts)
    if total == 0:
        parts, total = [1] * len(parts), len(parts)
    floors = [part * whole // total for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda place: (-(parts[place] * whole % total), place))
    for place in by_remainder[: whole - sum(floors)]:
        floors[place] += 1
    return floors


def _in_order(arms: Sequence[Arm]) -> Arms:
    return tuple(sorted(arms, key=lambda arm: arm.revision))
