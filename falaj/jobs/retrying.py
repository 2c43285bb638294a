"""What follows when an attempt ends: whether the job is over or tried again, when, and what is told about it. Pure."""

from typing import Final, Literal

from falaj.base.clock import MINUTE, SECOND
from falaj.base.values import value
from falaj.jobs.engines.engine import Cause
from falaj.jobs.running.measures import UNMEASURED
from falaj.jobs.running.outputs import UNSENT

FIRST_WAIT: Final = 10 * SECOND
LONGEST_WAIT: Final = 10 * MINUTE
MOST_LOSSES: Final = 20  # after so many it is not the hosts any more
_HOPELESS: Final = ("memory", "timeout", "disk")  # what is given the same again comes to the same end
_NO_PROGRAM: Final = (126, 127)  # what shells say of a command that is not there or is no program

# Why an attempt was told to stop.
StopFor = Literal["", "preempted", "cancelled", "drained", "idle", "resized"]
EndCause = Cause | Literal["refused", "unstarted"]
EndState = Literal["waiting", "done", "failed", "cancelled"]


@value
class Ending:
    """How an attempt ended, and what stood behind it. `unstarted`: planned by a controller that died before it started it;
    `refused`: it may not run any more."""

    cause: EndCause
    code: int | None = None
    words: str = ""
    stop_for: StopFor = ""
    number: int = 1
    retries: int = 0
    failures: int = 0
    losses: int = 0
    memory_used: int = 0
    memory_asked: int = 0


@value
class Sequel:
    """`state` waiting means that it is tried again after `wait`. `words` say it to people; `kind` is the event's."""

    state: EndState
    kind: str
    words: str
    cause: str
    wait: int = 0
    failures: int
    losses: int


def judge(ending: Ending) -> Sequel:
    if ending.cause == "done":
        return _sequel(ending, "done", "done", "Done.")
    if ending.stop_for == "cancelled":
        return _sequel(ending, "cancelled", "cancelled", "Cancelled.", cause="cancelled")
    if ending.stop_for == "idle":
        words = "Stopped: its GPUs did nothing for longer than its queue allows."
        return _sequel(ending, "failed", "idle", words, cause="idle")
    if ending.stop_for:
        return _sequel(ending, "waiting", ending.stop_for, f"Try {ending.number} gave back; it waits for another.")
    if ending.cause == "refused":
        return _sequel(ending, "failed", "refused", ending.words or "It may not run any more.")
    if ending.cause == "unstarted":
        return _sequel(ending, "waiting", "unstarted", f"Try {ending.number} was planned and never began; it is tried again.")
    if ending.cause in ("lost", "stopped"):
        return _after_loss(ending)
    return _after_failure(ending)


def _after_loss(ending: Ending) -> Sequel:
    """Not its fault, so it costs it nothing, within bounds; at once, but after a second loss in a row no sooner than a failure.
    `stopped`, where nobody asked for it, is somebody on the host."""
    told = f"Try {ending.number} was lost: {ending.words or 'its host or its engine went away under it'}."
    losses = ending.losses + 1
    if losses > MOST_LOSSES:
        return _sequel(ending, "failed", "lost", f"{told} That was the {losses}th time.", losses=losses)
    wait = _pause(losses - 1) if losses > 1 else 0
    return _sequel(ending, "waiting", "lost", f"{told} It is tried again {_when(wait)}.", wait=wait, losses=losses)


def _after_failure(ending: Ending) -> Sequel:
    failures = ending.failures + 1
    told = _what_happened(ending)
    if failures > ending.retries or _is_certain(ending):
        last = " It is not tried again." if ending.retries else ""
        return _sequel(ending, "failed", "failed", told + last, failures=failures)
    wait = _pause(failures)
    again = f" Tried again {_when(wait)} (retry {failures} of {ending.retries})."
    return _sequel(ending, "waiting", "retry", told + again, wait=wait, failures=failures)


def _is_certain(ending: Ending) -> bool:
    """Whether the next try would end the same way: it is given the same, and a command that ended well writes the same."""
    if ending.cause == "output":
        return UNSENT not in ending.words
    return ending.cause in _HOPELESS or ending.code in _NO_PROGRAM


def _pause(times: int) -> int:
    return min(FIRST_WAIT << (times - 1), LONGEST_WAIT)


def _when(wait: int) -> str:
    return f"in {wait // SECOND} s" if wait else "at once"


def _what_happened(ending: Ending) -> str:
    match ending.cause:
        case "memory":
            # Who takes much at once is stopped before it has been seen to hold it.
            was = f"{ending.memory_used:,}" if ending.memory_used > ending.memory_asked else f"{ending.memory_asked:,} or more"
            return (
                f"Try {ending.number} needed more memory than it asked for: it was at {was} MiB and had asked"
                f" for {ending.memory_asked:,} MiB. Ask for more with --memory."
            )
        case "timeout":
            return f"Try {ending.number} ran into its timeout."
        case "disk":
            if UNMEASURED in ending.words:
                return f"Try {ending.number} was ended: {ending.words.removesuffix('.')}."
            return f"Try {ending.number} filled the disk space it was given."
        case "environment":
            return f"The environment of try {ending.number} could not be made: {ending.words or 'nobody said why'}."
        case "output":
            why = ending.words.removesuffix(".") or "what it was to write is not kept"
            return f"Try {ending.number} ended well, but {why}."
        case _:
            how = f"with code {ending.code}" if ending.code is not None else "badly"
            return f"Try {ending.number} ended {how}{_more(ending)}."


def _more(ending: Ending) -> str:
    """What an engine adds to the code: which task it was of, and nothing where it only says the code again."""
    whom = ending.words.removesuffix(f" ended with {ending.code}")
    if whom == ending.words:
        return f": {whom}" if whom else ""
    return "" if whom == "it" else f" in {whom}"


def _sequel(
    ending: Ending,
    state: EndState,
    kind: str,
    words: str,
    *,
    cause: str = "",
    wait: int = 0,
    failures: int | None = None,
    losses: int | None = None,
) -> Sequel:
    return Sequel(
        state=state,
        kind=kind,
        words=words,
        cause=cause or ending.cause,
        wait=wait,
        failures=ending.failures if failures is None else failures,
        losses=ending.losses if losses is None else losses,
    )
