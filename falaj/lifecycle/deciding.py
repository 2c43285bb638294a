"""What happens next in a run: from how it stands to what is begun, waited for and ended. Pure; the clock is passed in.

1. What was asked for and is over is settled: jobs that ended, answers that came, waits and steps whose time is up.
2. Steps whose needs are over begin, are skipped, or become one for each item of a list.
3. Lists are whole when each of their items is. A run is over when all is, or when something failed and nothing is under way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import PermanentError
from falaj.base.values import value
from falaj.lifecycle.checking import is_of_kind, needs_of, order_of, spoken_of
from falaj.lifecycle.expressions import MOST_WORK, Work, resolve
from falaj.lifecycle.operations.words import LARGEST, MOST_ITEMS, MOST_OF_RUN, Definition, Family, RunState, Step, StepState
from falaj.lifecycle.writing import words, written

ALONE: Final = -1  # the item of a step that is done once
Key = tuple[str, int]
OVER: Final = ("done", "failed", "skipped", "cancelled")
UNDER_WAY: Final = ("running", "asking")
CALLING: Final = ("function", "operation", "optimise")  # kinds of steps that bring about something outside of the run
MOST_KEPT: Final = 64 * LARGEST  # characters of all that the steps of one run are given and hand on
ENOUGH_WORK: Final = MOST_WORK // 4  # of one project before others have their turn: half a second at most, mostly much less
OF_A_ROW: Final = 32  # the work of writing or reading how one step or item stands, without what it keeps
MOST_OF_PROJECT: Final = 16 * MOST_KEPT  # of all that the runs of one project together keep that are not over
FULL: Final = f"The runs of the project that are not over keep {MOST_OF_PROJECT >> 20} MiB together, which is the most."
_LONGEST_WAIT: Final = 366 * 86_400
_FIRST_PAUSE: Final = 5 * SECOND
_LONGEST_PAUSE: Final = 600 * SECOND
FAR: Final = 2**62  # when nothing is awaited
_UNMET: Final = "Its condition does not hold."


@value
class Standing:
    """How a step, or one item of it, stands. `attempt` is 0 before the first; `failures` of them ended badly."""

    name: str
    item: int = ALONE
    state: StepState = "waiting"
    attempt: int = 0
    failures: int = 0
    arguments: Any = None
    called: Any = None
    has_called: bool = False
    told: Any = None
    result: Any = None
    words: str = ""
    job: str = ""
    cached: str = ""
    digest: str = ""
    begun: Moment | None = None
    ended: Moment | None = None
    due: int = 0
    size: int = 0  # of what it was given, was answered and handed on, as that is written

    @property
    def key(self) -> Key:
        return self.name, self.item


@value
class Failure:
    family: Family
    words: str


@value
class Event:
    name: str
    content: Any


@value
class Outcome:
    """What came of something that was done for a try: news of it, or its end: with a `result`, or a `failure`."""

    attempt: int
    over: bool = False
    result: Any = None
    failure: Failure | None = None
    news: Mapping[str, Any] = field(default_factory=dict)


@value
class Outline:
    """What follows from a definition and from which steps belong to a run: worked out once, for many decisions. `steps` are
    those that belong to it; `required` those that must not have been skipped."""

    steps: Mapping[str, Step]
    order: tuple[str, ...]
    needs: Mapping[str, frozenset[str]]
    required: Mapping[str, tuple[str, ...]]
    result: Any
    is_whole: bool


@value
class Snapshot:
    """A run as it stands. `room` is how much its steps may keep for all that other runs of the project do."""

    id: str
    outline: Outline
    parameters: Mapping[str, Any]
    stopping: bool
    standings: Mapping[Key, Standing]
    events: Sequence[Event] = ()
    outcomes: Mapping[Key, Outcome] = field(default_factory=dict)
    room: int = MOST_KEPT


@value
class Plan:
    """`changed` are to be written. `end` is what the whole run becomes, where it is over. `work` is how much was to be worked
    out, looked at and written for it, all together, and `kept` what its steps keep afterwards."""

    changed: tuple[Standing, ...]
    end: RunState | None = None
    words: str = ""
    result: Any = None
    due: int = FAR  # when there is something to look at again, if nothing happens before
    work: int = 0
    kept: int = 0


def outline_of(definition: Definition, only: frozenset[str]) -> Outline:
    steps = {step.name: step for step in definition.steps if step.name in only}
    spoken = {name: spoken_of(step) for name, step in steps.items()}
    return Outline(
        steps=steps,
        order=tuple(name for name in order_of(definition) if name in steps),
        needs={name: frozenset(needs_of(step) & steps.keys()) for name, step in steps.items()},
        required={name: tuple(one.step for one in of if one.step and not one.optional) for name, of in spoken.items()},
        result=definition.result,
        is_whole=len(steps) == len(definition.steps),
    )


def decide(snapshot: Snapshot, now: Moment) -> Plan:
    round_ = _Round(snapshot, now)
    round_.settle()
    if snapshot.stopping or round_.failed():
        round_.stop()
    else:
        round_.go_on()
    round_.gather()
    return round_.plan()


def settled(standing: Standing, step: Step, outcome: "Failure | Any", now: Moment) -> Standing:
    """What was under way came to an end: well, with what it hands on, or not."""
    if isinstance(outcome, Failure):
        return _failed(standing, step, outcome, now)
    if not is_of_kind(outcome, step.result):
        told = f"It was to hand on what is of the kind {step.result!r}, and handed on {str(outcome)[:200]!r}."
        return replace(standing, state="failed", words=words(told), ended=now)
    try:
        size = standing.size + len(written(outcome))
    except PermanentError as error:
        return replace(standing, state="failed", words=str(error), ended=now)
    return replace(standing, state="done", result=outcome, words="", ended=now, due=0, size=size)


def _failed(standing: Standing, step: Step, failure: Failure, now: Moment) -> Standing:
    failures = standing.failures + 1
    if failures > step.retries or failure.family not in step.on:
        return replace(standing, state="failed", failures=failures, words=words(failure.words), ended=now)
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE << min(failures - 1, 20))
    told = words(f"Try {standing.attempt} failed ({failure.family}): {failure.words}")
    return replace(
        standing,
        state="waiting",
        failures=failures,
        words=told,
        job="",
        told=None,
        called=None,
        has_called=False,
        due=now + pause,
    )


class _Round:
    def __init__(self, snapshot: Snapshot, now: Moment) -> None:
        self._snapshot, self._now = snapshot, now
        self._outline, self._steps, self._order = snapshot.outline, snapshot.outline.steps, snapshot.outline.order
        self._all: dict[Key, Standing] = dict(snapshot.standings)
        for name in self._order:
            self._all.setdefault((name, ALONE), Standing(name=name))
        self._items_of: dict[str, set[int]] = {}
        for name, item in self._all:
            if item != ALONE:
                self._items_of.setdefault(name, set()).add(item)
        self._kept = self._kept_at_first = sum(one.size for one in self._all.values())
        self._work, self._refused, self._is_tired = Work(), 0, False

    def _put(self, standing: Standing) -> None:
        before = self._all.get(standing.key)
        if before is None and standing.item != ALONE:
            self._items_of.setdefault(standing.name, set()).add(standing.item)
        self._kept += standing.size - (0 if before is None else before.size)
        self._all[standing.key] = standing

    def _items(self, name: str) -> list[Standing]:
        return [self._all[name, item] for item in sorted(self._items_of.get(name, ()))]

    def _may_begin_more(self) -> bool:
        """Others have their turn before this run begins more."""
        self._is_tired = self._is_tired or self._worked() > ENOUGH_WORK
        return not self._is_tired

    def _worked(self) -> int:
        """What is kept is work, too: each character of it is looked at and written."""
        return self._work.done + self._refused + max(0, self._kept - self._kept_at_first)

    # 1.

    def settle(self) -> None:
        for key, outcome in self._snapshot.outcomes.items():
            one, step = self._all.get(key), self._steps.get(key[0])
            if one is None or step is None or one.state != "running" or one.attempt != outcome.attempt:
                continue  # said of a try that does not count any more
            one = replace(one, **outcome.news)
            if one.has_called and "called" in outcome.news:
                one = replace(one, size=one.size + len(written(one.called)))
            ended = outcome.result if outcome.failure is None else outcome.failure
            self._put(self._settled(one, step, ended) if outcome.over else one)
        for one in tuple(self._all.values()):
            step = self._steps.get(one.name)
            if step is None or one.state not in UNDER_WAY or (step.each is not None and one.item == ALONE):
                continue
            if step.kind == "wait":
                self._settle_wait(one, step)
            if self._all[one.key].state in UNDER_WAY and self._now >= _deadline(one, step, self._now):
                late = Failure(family="timeout", words=f"It was not over after {step.seconds} seconds.")
                self._put(settled(one, step, late, self._now))

    def _settle_wait(self, one: Standing, step: Step) -> None:
        if not step.event and self._now >= one.due:
            self._put(self._settled(one, step, None))
        found = next((event for event in self._snapshot.events if event.name == step.event), None)
        if step.event and found is not None:
            self._put(self._settled(one, step, found.content))

    def _settled(self, one: Standing, step: Step, outcome: "Failure | Any") -> Standing:
        ended = settled(one, step, outcome, self._now)
        if ended.size > one.size:
            try:
                self._check_room(ended.size - self._all[one.key].size)
            except PermanentError as error:
                return replace(one, state="failed", words=str(error), ended=self._now)
        return ended

    # 2.

    def failed(self) -> bool:
        return any(one.state == "failed" for one in self._all.values())

    def stop(self) -> None:
        """What is under way ends, of itself or told by whoever acts; the rest never begins."""
        for one in tuple(self._all.values()):
            step = self._steps.get(one.name)
            idle = step is not None and (step.kind == "wait" or is_put_off(one, step, self._now))
            if one.state in ("waiting", "asking") or (one.state == "running" and idle):
                self._put(replace(one, state="cancelled", ended=self._now))

    def go_on(self) -> None:
        for name in self._order:
            if not self._may_begin_more():
                return
            step, one = self._steps[name], self._all[name, ALONE]
            if one.state == "waiting" and self._now >= one.due and self._needs_are_over(step):
                self._begin_or_skip(step, one)
            elif one.state == "running" and step.each is not None:
                self._begin_items(step)

    def _needs_are_over(self, step: Step) -> bool:
        return all(self._all[need, ALONE].state in ("done", "skipped") for need in self._outline.needs[step.name])

    def _begin_or_skip(self, step: Step, one: Standing) -> None:
        for required in self._outline.required[step.name]:
            if not self._is_done(required):
                self._put(replace(one, state="skipped", words=f"{required} was skipped.", ended=self._now))
                return
        self._try(one, lambda: self._began(step, one))

    def _try(self, one: Standing, begin: Callable[[], None]) -> None:
        """What an argument speaks of may not be there: that is known now, and is this step's failure."""
        try:
            begin()
        except PermanentError as error:
            self._put(replace(one, state="failed", words=words(str(error)), begun=self._now, ended=self._now))

    def _is_done(self, name: str) -> bool:
        found = self._all.get((name, ALONE))
        return found is not None and found.state == "done"

    def _began(self, step: Step, one: Standing) -> None:
        scope = self._scope()
        if step.each is None:
            if not resolve(step.when, scope, self._work):
                self._put(replace(one, state="skipped", words=_UNMET, ended=self._now))
            else:
                self._begin(step, one, scope)
            return
        items = resolve(step.each, scope, self._work)
        if not isinstance(items, list | tuple):
            raise PermanentError(f"It is to be done for each of a list, and was given {str(items)[:200]!r}.")
        if len(items) > MOST_ITEMS or len(self._all) + len(items) > MOST_OF_RUN:
            raise PermanentError(
                f"It is to be done for each of {len(items)}; {MOST_ITEMS} are the most, {MOST_OF_RUN} of a run."
            )
        size = self._kept_of(items)
        self._put(replace(one, state="running", attempt=one.attempt + 1, arguments=list(items), begun=self._now, size=size))
        for number, item in enumerate(items):
            if not resolve(step.when, {**scope, "item": item}, self._work):
                self._put(Standing(name=step.name, item=number, state="skipped", words=_UNMET, ended=self._now))
            elif (step.name, number) not in self._all:
                self._put(Standing(name=step.name, item=number))
        self._begin_items(step)

    def _begin_items(self, step: Step) -> None:
        items, given, scope = self._items(step.name), self._all[step.name, ALONE].arguments, self._scope()
        free = step.at_once - sum(one.state in UNDER_WAY for one in items)
        ready = [one for one in items if one.state == "waiting" and self._now >= one.due]
        for one in ready[: max(0, free)]:
            if not self._may_begin_more():
                return
            inside = {**scope, "item": given[one.item]}
            self._try(one, lambda one=one, inside=inside: self._begin(step, one, inside))  # type: ignore[misc]

    def _begin(self, step: Step, one: Standing, scope: Mapping[str, Any]) -> None:
        """The arguments of a first try stay those of all tries."""
        arguments = resolve(step.arguments, scope, self._work) if one.arguments is None else one.arguments
        size = self._kept_of(arguments)
        begun = replace(one, state="running", attempt=one.attempt + 1, arguments=arguments, begun=self._now, due=0, words="")
        begun = replace(begun, size=size)
        if step.kind == "value":
            self._put(self._settled(begun, step, arguments["value"]))
            return
        if step.kind == "approval":
            begun = replace(begun, state="asking", words=words(str(arguments.get("question", step.question))))
        elif step.kind == "wait":
            begun = replace(begun, due=self._now + _pause(arguments.get("seconds", 0)), words=step.words)
            self._put(begun)
            self._settle_wait(begun, step)
            return
        self._put(begun)

    def _kept_of(self, given: Any) -> int:
        try:
            size = len(written(given))
        except PermanentError:
            self._refused += LARGEST  # so much was looked at before it was too much
            raise
        self._check_room(size)
        return size

    def _check_room(self, more: int) -> None:
        if self._kept + more > MOST_KEPT:
            raise PermanentError(f"What its steps were given and handed on is more than {MOST_KEPT >> 20} MiB together.")
        if self._kept + more > self._snapshot.room:
            raise PermanentError(FULL)

    def _scope(self) -> dict[str, Any]:
        steps = {name: self._all[name, ALONE].result for name in self._order if self._is_done(name)}
        return {"parameters": self._snapshot.parameters, "steps": steps, "run": self._snapshot.id}

    # 3.

    def gather(self) -> None:
        for name in self._order:
            one, items = self._all[name, ALONE], self._items(name)
            if self._steps[name].each is None or one.state != "running" or any(item.state not in OVER for item in items):
                continue
            bad = next((item for state in ("failed", "cancelled") for item in items if item.state == state), None)
            if bad is not None:
                told = words(f"Item {bad.item}: {bad.words or bad.state}")
                self._put(replace(one, state=bad.state, words=told, ended=self._now))
                continue
            results = [item.result for item in items if item.state == "done"]
            try:
                size = one.size + self._kept_of(results)
            except PermanentError as error:
                self._put(replace(one, state="failed", words=str(error), ended=self._now))
            else:
                self._put(replace(one, state="done", result=results, ended=self._now, size=size))

    def plan(self) -> Plan:
        before = self._snapshot.standings
        changed = tuple(
            one for key, one in self._all.items() if _is_new(one, before.get(key)) and _is_worth_keeping(one, before)
        )
        plan = Plan(
            changed=changed, due=self._next(), work=self._worked() + len(self._all) + OF_A_ROW * len(changed), kept=self._kept
        )
        if any(one.state in UNDER_WAY for one in self._all.values()):
            return plan
        if self._snapshot.stopping:
            return replace(plan, end="cancelled")
        bad = next((one for one in self._all.values() if one.state == "failed"), None)
        if bad is not None:
            return replace(plan, end="failed", words=words(f"{bad.name}: {bad.words}"))
        if any(one.state not in OVER for one in self._all.values()):
            return plan
        work = Work()  # of its own: what came before counts not against it
        try:
            result = resolve(self._outline.result, self._scope(), work) if self._outline.is_whole else None
            size = len(written(result))
        except PermanentError as error:
            told = words(f"It hands on nothing: {error}")
            return replace(plan, end="done", words=told, work=plan.work + work.done + LARGEST)
        return replace(plan, end="done", result=result, work=plan.work + work.done + size)

    def _next(self) -> int:
        """When time alone changes something."""
        moments = [self._now if self._is_tired else FAR]
        for one in self._all.values():
            step = self._steps.get(one.name)
            if step is None or (step.each is not None and one.item == ALONE):
                continue
            if one.due > self._now:
                moments.append(one.due)
            if one.state in UNDER_WAY:
                moments.append(_deadline(one, step, self._now))
        return min(moments)


def _pause(seconds: Any) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_WAIT:
        raise PermanentError(f"It is to wait for {str(seconds)[:100]!r} seconds, and not for 0 to {_LONGEST_WAIT:,}.")
    return int(seconds * SECOND)


def is_afoot(one: Standing, step: Step) -> bool:
    """Whether its try brought something about that may go on by itself."""
    return bool(one.job) or (one.has_called and step.kind == "operation")


def is_put_off(one: Standing, step: Step, now: Moment) -> bool:
    """What could not be called was not, until it is called again; of anything else that is not afoot nobody knows yet."""
    return step.kind in CALLING and not is_afoot(one, step) and one.due > now


def _deadline(one: Standing, step: Step, now: Moment) -> int:
    """Of what is waited for here. A job's time begins when the job does, and it keeps to that itself; what was called is given
    up by whoever asks about it; and of what is being called it is soon known whether it was."""
    if not step.seconds or (step.kind in CALLING and not is_put_off(one, step, now)):
        return FAR
    return (one.begun or 0) + step.seconds * SECOND


def _is_new(one: Standing, before: Standing | None) -> bool:
    """Most of many items are the very same as before, which is seen without looking into them."""
    return one is not before and one != before


def _is_worth_keeping(one: Standing, before: Mapping[Key, Standing]) -> bool:
    """What waits and never was anything else is the same as if it were not there."""
    return one.state != "waiting" or one.key in before or one.item != ALONE
