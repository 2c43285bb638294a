"""The door between faces and engines: every prediction comes in by `submit` and leaves by its reply."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Final, TypeAlias

from falaj.base.clock import Clock
from falaj.base.errors import FalajError, Forbidden, Invalid, NotFound, PermanentError, TooLarge, Unavailable
from falaj.base.values import value
from falaj.runtimes.engine import Array
from falaj.serving.operations.planes import CallReport, RevisionReport, WatchReport
from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.asking import Ask, DeadlinePassed, Described, Indexed
from falaj.serving.plane.core.admission import too_late
from falaj.serving.plane.core.adopting import Adoption
from falaj.serving.plane.core.batches import Batches
from falaj.serving.plane.core.calls import CallLog
from falaj.serving.plane.core.fleet import Fleet
from falaj.serving.plane.core.gathering import Item
from falaj.serving.plane.core.grants import Grant, Grants
from falaj.serving.plane.core.inputs import weight_of
from falaj.serving.plane.core.lives import Live
from falaj.serving.plane.core.models import Model, Parked
from falaj.serving.plane.core.reading import Load, Open, Room, Tune
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.core.shadows import Shadows
from falaj.serving.plane.core.taps import Seen, Tap, Watcher, drawn_of
from falaj.serving.plane.lookups.desk import Crowded, Desk
from falaj.serving.plane.lookups.joining import Lookup
from falaj.serving.plane.lookups.views import Views
from falaj.serving.plane.marks import Mark
from falaj.serving.plane.shares import Shares
from falaj.serving.states import Endpoint, State

Arrays: TypeAlias = Sequence[Array]
WAITING_BYTES: Final = 256 * 1024 * 1024
_SWEEPS: Final = 0.1  # seconds between looks at what waits for a model to be loaded
_LOOKS_AT_MODELS: Final = 1.0


@value
class Told:
    """What was done since it was last told. `problems` are by revision; `under_way` counts calls that were let in and are not
    answered yet, `waiting`, by revision, rows that wait for a model or are in it. `taps` are by name: the batches that each saw
    and missed, and how often it failed. `rungs` are the places on their ladders at which revisions answer. `watched` is what
    taps have to say."""

    revisions: tuple[RevisionReport, ...]
    calls: tuple[CallReport, ...]
    problems: dict[str, str]
    under_way: int
    waiting: dict[str, int]
    taps: dict[str, tuple[int, int, int]]
    rungs: dict[str, int]
    watched: tuple[WatchReport, ...]


class ServingCore:
    """Made on the loop's thread, and used there alone. `load` and `tune` are called in threads. `everywhere` has an endpoint
    loaded or unloaded by all workers, this one among them; without it, by this one alone."""

    def __init__(
        self,
        *,
        clock: Clock,
        load: Load,
        tune: Tune,
        room: Room,
        waiting_bytes: int = WAITING_BYTES,
        mark: Mark | None = None,
        taps: Sequence[Tap] = (),
        random: Random | None = None,
        everywhere: Callable[[str, bool], Awaitable[None]] | None = None,
        views: Views | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._desk = Desk(views or Views(None), clock)
        self._random = random or Random()  # nosec B311 - who gets which arm is no secret
        self._running = Running(mark)
        self._grants = Grants(clock, lambda project: self._adoption.names_of(project))
        self._fleet = Fleet(load, tune, room, self._running, self._resume, self._desk.lookup_for)
        self._waiting = Shares(waiting_bytes)
        self._adoption = Adoption(self._grants, self._fleet, self._waiting, self._random, self._watch)
        self._calls = CallLog(clock, self._random)
        self._everywhere = everywhere or self.set_loaded
        self._watchers = [Watcher(tap) for tap in taps]
        self._ready: list[Batches] = []
        self._adopted = False
        self._draining = False
        self._looked_at_models = time.monotonic()
        self._parking: set[Model] = set()
        self._sweep_timer = self._loop.call_later(_SWEEPS, self._sweep)

    # Predictions

    def submit(self, ask: Ask) -> None:
        try:
            grant = self._grants.of(ask.token, ask.arrived)
            live: Live | None = grant.names.get(ask.endpoint)
            if live is None or (grant.only and live.id not in grant.only):
                raise self._no_access(grant, ask.endpoint)
            if live.rates is not None:
                live.rates.take(grant.principal, ask.arrived)
            model = live.sole
            if model is None or ask.version or ask.override:
                model = live.pick(ask)
            if model.batches is None:
                self._park(model, ask, grant)
            else:
                self._enter(model, model.batches, ask, grant)
        except FalajError as error:
            ask.reply.refuse(error)
        except Exception as error:  # noqa: BLE001 - faces rely on it: whatever is wrong goes to the reply
            ask.reply.refuse(PermanentError(f"The request could not be read: {type(error).__name__}."))

    def _enter(self, model: Model, batches: Batches, ask: Ask, grant: Grant) -> None:
        if model.lookup is not None and ask.entities is None:
            self._look_up(model, model.lookup, ask, grant)
            return
        datas, rows, tails, weight = batches.inputs.check(ask.given)
        if ask.wanted:
            _check_wanted(ask.wanted, batches.names)
        waiting = batches.rows_waiting
        try:
            if waiting:
                if batches.aside is not None:
                    batches = batches.place_for(rows)
                    waiting = batches.rows_waiting
                size = batches.size
                if waiting > size.rows_allowed:
                    raise too_late(size.wait(waiting), model.endpoint.latency_ms / 1000)
            if ask.deadline is not None:
                _check_deadline(ask.deadline - time.monotonic(), batches.size.wait(waiting))
            model.gate.enter(weight)
        except (Unavailable, DeadlinePassed):
            model.counts.of(ask).shed += 1
            raise
        batches.add((ask, grant, rows, datas, tails, weight))
        if not batches.scheduled:
            self._schedule(batches)

    def _schedule(self, batches: Batches) -> None:
        if not batches.scheduled:
            batches.scheduled = True
            if not self._ready:
                self._loop.call_soon(self._turn)
            self._ready.append(batches)

    def _turn(self) -> None:
        """Everything that came in since the last turn of the loop."""
        ready, self._ready = self._ready, []
        for batches in ready:
            batches.scheduled = False
            try:
                left = batches.turn()
            except Exception as error:  # noqa: BLE001 - a fault of one model's batches must not cost the others their turn
                self._loop.call_exception_handler({"message": "a batch was not answered", "exception": error})
                left = True
            if left:
                self._schedule(batches)

    # Features that are looked up first

    def _look_up(self, model: Model, lookup: Lookup, ask: Ask, grant: Grant) -> None:
        """In a thread, for the store may be elsewhere; it counts among what the endpoint has in hand."""
        weight = 1 + sum(weight_of(one.data) for one in ask.given)
        try:
            model.gate.enter(weight)
        except Unavailable:
            model.counts.of(ask).shed += 1
            raise
        self._desk.join(lookup, ask, model.endpoint.latency_ms, partial(self._looked_up, model, ask, grant, weight))

    def _looked_up(self, model: Model, ask: Ask, grant: Grant, weight: int, failure: Exception | None) -> None:
        model.gate.leave(1, weight)
        try:
            if failure is not None:
                _count_failure(model, ask, failure)
                raise failure
            if _is_late(ask, time.monotonic()):
                raise DeadlinePassed("The deadline passed while features were looked up.")
            if model.batches is None:
                self._park(model, ask, grant)
            else:
                self._enter(model, model.batches, ask, grant)
        except FalajError as error:
            ask.reply.refuse(error)
        except Exception as error:  # noqa: BLE001 - faces rely on it: whatever is wrong goes to the reply
            ask.reply.refuse(PermanentError(f"Features could not be looked up: {type(error).__name__}."))

    # Models that are not in memory

    def _park(self, model: Model, ask: Ask, grant: Grant) -> None:
        now = time.monotonic()
        if model.problem and now < model.retry_at:
            raise Unavailable(model.problem, delay=max(1.0, model.retry_at - now))
        if model.broken:
            raise Unavailable(f"Revision {model.revision.number} is in quarantine, and there is none to take over.", delay=5.0)
        weight = 1 + sum(weight_of(one.data) for one in ask.given)
        try:
            model.gate.enter(weight)
        except Unavailable:
            model.counts.of(ask).shed += 1
            raise
        model.parked.append(Parked(ask=ask, grant=grant, weight=weight))
        self._parking.add(model)
        self._fleet.begin(model)

    def _resume(self, model: Model, parked: Parked) -> None:
        model.gate.leave(1, parked.weight)
        ask = parked.ask
        try:
            if _is_late(ask, time.monotonic()):
                raise DeadlinePassed("The deadline passed before the model was loaded.")
            if model.batches is None:
                raise Unavailable(model.problem or "The model is not in memory.", delay=5.0)
            self._enter(model, model.batches, ask, parked.grant)
        except FalajError as error:
            ask.reply.refuse(error)
        except Exception as error:  # noqa: BLE001 - faces rely on it: whatever is wrong goes to the reply
            ask.reply.refuse(PermanentError(f"The request could not be read: {type(error).__name__}."))

    def _sweep(self) -> None:
        """Answer those whose deadline passes while a model is loaded; let models fall or rise; unload what nobody asks for; try
        again what failed."""
        now = time.monotonic()
        self._fleet.look(now)
        for model in list(self._parking):
            late = [one for one in model.parked if _is_late(one.ask, now)]
            for one in late:
                model.parked.remove(one)
                self._resume(model, one)
            if not model.parked:
                self._parking.discard(model)
        if now - self._looked_at_models >= _LOOKS_AT_MODELS:
            self._looked_at_models = now
            self._fleet.unload_idle(now)
            self._fleet.stop_hanging(now)
            self._adoption.try_again(now)
        self._sweep_timer = self._loop.call_later(_SWEEPS, self._sweep)

    # After an answer

    def _watch(self, live: Live) -> None:
        """Who is told of an endpoint's answers; nobody, in most cases, which costs nothing."""
        shadows = Shadows(live.shadows, self._random, self._schedule, self._desk.join) if live.shadows else None
        trial = {model for model, _ in live.shadows}
        newest = {revision.number: revision for revision in live.endpoint.revisions}
        for model in live.models.values():
            copies = shadows if model not in trial else None
            revision = newest.get(model.revision.number, model.revision)
            watchers = [one for one in self._watchers if one.wants(live.endpoint, revision)]
            watched = bool(copies or live.endpoint.log_share or watchers)
            model.watch(
                partial(self._after, model, copies, watchers) if watched else None,
                partial(self._calls.note_failure, model) if live.endpoint.log_share else None,
            )

    def _after(
        self,
        model: Model,
        shadows: Shadows | None,
        watchers: Sequence[Watcher],
        batch: Sequence[Item],
        inputs: Arrays,
        outputs: Arrays,
        now: float,
    ) -> None:
        if model.endpoint.log_share:
            self._calls.note(model, batch, inputs, outputs, now)
        if shadows is not None and model.batches is not None:
            shadows.copy(batch, model.batches.names, outputs, together=len(batch) > 1)
        if watchers and model.shape is not None:
            pinned = [item[0].is_pinned for item in batch]
            if True in pinned:  # whoever asks for a revision by its number would choose what its traffic is said to be
                inputs, outputs = drawn_of(batch, inputs, outputs)
                batch = [item for item in batch if not item[0].is_pinned]
                if not batch:
                    return
            rows = sum([item[2] for item in batch])
            seen = Seen(model.endpoint.id, model.revision.number, inputs, outputs, rows, model.shape)
            for watcher in watchers:
                if watcher.share >= WHOLE or self._random.random() * WHOLE < watcher.share:
                    watcher.offer(seen)

    # States

    async def adopt(
        self, state: State, read: Open, broken: Collection[str] = (), unloaded: Collection[str] = ()
    ) -> dict[str, str]:
        """Serve by this state; `read` gives a revision's files once they are checked, `broken` must not be run here, and
        `unloaded` are the endpoints that somebody unloaded.

        Gives, by revision, why one cannot be served.
        """
        for watcher in self._watchers:
            watcher.adopt(state)
        problems = await self._adoption.adopt(state, read, broken, unloaded)
        for live in self._adoption.lives.values():  # where a split could not be taken over, what is watched is nevertheless
            self._watch(live)
        self._adopted = True
        return problems

    def drain_report(self) -> Told:
        """What was done since this was last called."""
        models = [model for live in self._adoption.lives.values() for model in live.models.values()]
        gone = self._adoption.say_goodbye()
        return Told(
            revisions=tuple(model.report() for model in (*models, *gone)),
            calls=self._calls.drain(),
            problems={model.revision.id: model.problem for model in models if model.problem},
            under_way=sum(live.gate.open for live in self._adoption.lives.values()),
            waiting={model.revision.id: rows for model in (*models, *gone) if (rows := model.rows_waiting)},
            taps={one.name: one.told() for one in self._watchers},
            rungs={model.revision.id: model.at for model in models if len(model.rungs) > 1 and model.own is not None},
            watched=tuple(report for one in self._watchers for report in one.take()),
        )

    async def drain(self, seconds: float, *, leaving: bool = True) -> bool:
        """Wait until everything that was let in is answered; false where that took too long. With `leaving`, be not ready."""
        self._draining = leaving
        end = time.monotonic() + seconds
        while self._waiting.taken:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.01)
        return True

    async def end_taps(self) -> None:
        """They see what waits for them; what they have to say of it is in the next report."""
        await asyncio.gather(*(asyncio.to_thread(watcher.close) for watcher in self._watchers))

    async def close(self) -> None:
        self._sweep_timer.cancel()
        await self._fleet.close()
        await self.end_taps()
        await asyncio.to_thread(self._desk.close)

    # What faces ask

    def is_ready(self) -> bool:
        return self._adopted and not self._draining

    def admit(self, token: str, source: str = "") -> str:
        return self._grants.of(token, time.monotonic(), source).project

    def describe(self, token: str, endpoint: str, version: str = "") -> Described:
        live = self._live(token, endpoint)
        model = _described(live, version)
        if model.shape is None:
            if live.put_out:
                raise live.unavailable()
            raise Unavailable(model.problem or f"The endpoint {endpoint!r} is being loaded.", delay=1.0)
        lookup = model.shape.lookup
        return Described(
            name=endpoint,
            versions=tuple(str(number) for number in sorted(live.models) if not live.models[number].broken),
            platform=model.shape.platform,
            inputs=lookup.inputs if lookup else model.shape.inputs,
            outputs=model.shape.outputs,
            columns=lookup.columns if lookup else model.shape.columns,
            looked_up=lookup.looked if lookup else (),
        )

    def is_model_ready(self, token: str, endpoint: str, version: str = "") -> bool:
        model = _described(self._live(token, endpoint), version)
        return model.shape is not None and not (model.problem or model.broken or model.put_out)

    def index(self, token: str) -> tuple[Indexed, ...]:
        grant = self._grants.of(token, time.monotonic())
        return tuple(
            _indexed(name, model)
            for name, live in sorted(grant.names.items())
            if not grant.only or live.id in grant.only
            for _, model in sorted(live.models.items())
        )

    def caller_of(self, token: str, source: str = "") -> str:
        """The same for every token that one caller has for one project."""
        grant = self._grants.of(token, time.monotonic(), source)
        return f"{grant.project}:{grant.principal}"

    def seen_by(self, token: str) -> tuple[str, frozenset[str]]:
        """A token's project, and the endpoints it is for; none where it is for all."""
        grant = self._grants.of(token, time.monotonic())
        return grant.project, grant.only

    def endpoint_named(self, token: str, name: str) -> Endpoint:
        return self._live(token, name).endpoint

    def endpoint_by_id(self, id: str) -> Endpoint | None:
        live = self._adoption.lives.get(id)
        return None if live is None else live.endpoint

    async def load(self, token: str, endpoint: str) -> None:
        await self._everywhere(self._managed(token, endpoint).id, True)

    async def unload(self, token: str, endpoint: str) -> None:
        """Out of memory, and refused, until somebody loads it."""
        await self._everywhere(self._managed(token, endpoint).id, False)

    async def set_loaded(self, endpoint: str, loaded: bool) -> None:
        """In this worker; an endpoint that no state names is nobody's affair any more."""
        live = self._adoption.lives.get(endpoint)
        if live is not None:
            await (self._adoption.load(live) if loaded else self._adoption.unload(live))

    def _live(self, token: str, endpoint: str) -> Live:
        grant = self._grants.of(token, time.monotonic())
        live: Live | None = grant.names.get(endpoint)
        if live is None or (grant.only and live.id not in grant.only):
            raise self._no_access(grant, endpoint)
        return live

    def _managed(self, token: str, endpoint: str) -> Live:
        live = self._live(token, endpoint)
        if not self._grants.of(token, time.monotonic()).manage:
            raise Forbidden("This token may not load or unload models; ask for a key that may manage.")
        return live

    def _no_access(self, grant: Grant, endpoint: str) -> FalajError:
        if endpoint in grant.names:
            return Forbidden(f"This token is not for the endpoint {endpoint!r:.120}.")
        return NotFound(f"There is no endpoint {endpoint!r:.120}.")


def _check_wanted(wanted: Sequence[str], names: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            raise Invalid(f"There is no output {name!r:.200}; the model gives: {', '.join(names)}.")
    if len(set(wanted)) != len(wanted):
        raise Invalid("An output was asked for twice.")


def _check_deadline(left: float, wait: float) -> None:
    if left <= 0:
        raise DeadlinePassed("The deadline passed before the request was read.")
    if wait > left:
        raise too_late(wait, left)


def _count_failure(model: Model, ask: Ask, failure: Exception) -> None:
    """What a caller did wrong, or nobody waits for, says nothing of the revision."""
    if isinstance(failure, Crowded):
        model.counts.of(ask).shed += 1
    elif not isinstance(failure, Invalid | TooLarge | DeadlinePassed):
        model.counts.of(ask).failed()


def _is_late(ask: Ask, now: float) -> bool:
    return ask.reply.gone or (ask.deadline is not None and ask.deadline <= now)


def _described(live: Live, version: str) -> Model:
    """The newest of those that get traffic, where no version is named."""
    if version:
        return live.named(version)
    arms = live.arms or tuple(live.models.values())
    if not arms:
        raise live.unavailable()
    return max(arms, key=lambda model: model.revision.number)


def _indexed(name: str, model: Model) -> Indexed:
    number = str(model.revision.number)
    if model.batches is not None:
        return Indexed(name=name, version=number, state="READY")
    if model.is_loading:
        return Indexed(name=name, version=number, state="LOADING")
    why = "unloaded, until somebody loads it" if model.put_out else model.problem
    why = why or ("in quarantine" if model.broken else "not in memory; the next request has it loaded")
    return Indexed(name=name, version=number, state="UNAVAILABLE", reason=why)
