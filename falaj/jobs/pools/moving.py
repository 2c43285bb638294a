"""How one host of a pool goes from state to state by what is seen of it. It decides nothing: see `scaling`."""

from dataclasses import replace
from typing import Any, Final, Literal

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.values import value
from falaj.jobs.pools.commands import Ended
from falaj.jobs.pools.values import HOST_NAME, Pool, PoolHost, State

FIRST_PAUSE: Final = 10 * SECOND
LONGEST_PAUSE: Final = 10 * MINUTE

Action = Literal["", "add", "add-failed", "added", "ready", "drain", "keep", "remove", "remove-failed", "removed", "gone"]


@value
class Sight:
    """What is seen of a host now. `node` is what its engine calls it, if it speaks of it; `known` whether jobs are placed by
    that; `unheard` whether the controller may not know yet that it drains; `lasting` how long it has been in its state."""

    answers: bool = True  # its engine
    node: str = ""
    known: bool = False
    draining: bool = False
    busy: bool = False
    unheard: bool = False
    ended: Ended | None = None  # the command that was run for its state
    lasting: int = 0


@value
class Moved:
    """`host` is None where nothing is left of it."""

    host: PoolHost | None
    action: Action = ""


def move(pool: Pool, host: PoolHost, sight: Sight, now: Moment) -> Moved:
    if host.state in ("adding", "starting") and sight.node and sight.known:
        # Also where its command failed, or still runs: it is there, and that is what counts.
        return _to(host, "ready", "ready", now, node=sight.node)
    if host.state in ("adding", "removing"):
        return _ended(host, sight.ended, now)
    if not sight.answers:
        return Moved(host=host)  # an engine that says nothing says nothing about its hosts
    if host.state == "starting":
        if sight.lasting < pool.starts_within:
            return Moved(host=host)
        late = f"it was added {sight.lasting // SECOND} s ago, and the engine {pool.engine} does not know of it"
        return _to(host, "removing", "remove", now, trouble=late)
    return _there(pool, host, sight, now)


def _there(pool: Pool, host: PoolHost, sight: Sight, now: Moment) -> Moved:
    """One that its engine has, or had: ready, draining or gone."""
    is_there = bool(sight.node) or sight.known
    if host.state == "gone":
        return Moved(host=host) if is_there else Moved(host=None, action="gone")
    if not is_there:
        return _to(host, "removing", "remove", now, trouble=f"the engine {pool.engine} lost it")
    if host.state == "draining" and (sight.busy or not sight.draining):
        return _to(host, "ready", "keep", now)  # something was quicker, or somebody resumed it
    if host.state == "draining" and not sight.unheard:
        return _to(host, "removing", "remove", now)
    return Moved(host=host)


def _ended(host: PoolHost, ended: Ended | None, now: Moment) -> Moved:
    if ended is None or ended.doing != host.state:
        return Moved(host=host)
    adding = host.state == "adding"
    if ended.trouble:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE << min(host.tries, 10))
        failed = replace(host, tries=host.tries + 1, not_before=Moment(now + pause), trouble=ended.trouble)
        return Moved(host=failed, action="add-failed" if adding else "remove-failed")
    if not adding:
        return _to(host, "gone", "removed", now)
    printed = ended.said if HOST_NAME.fullmatch(ended.said) else ""
    return _to(host, "starting", "added", now, printed=printed)


def _to(host: PoolHost, state: State, action: Action, now: Moment, **changes: Any) -> Moved:
    fresh: dict[str, Any] = {"tries": 0, "not_before": Moment(0), "trouble": "", **changes}
    return Moved(host=replace(host, state=state, since=now, **fresh), action=action)


def drained(host: PoolHost, now: Moment) -> Moved:
    return _to(host, "draining", "drain", now)


def given_up(host: PoolHost, now: Moment) -> Moved:
    """It could not be added and nobody needs it: whatever there is of it goes."""
    return _to(host, "removing", "remove", now, trouble=host.trouble)
