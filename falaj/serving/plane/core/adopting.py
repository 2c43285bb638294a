"""A new state is taken over: what is new is loaded first, then each endpoint goes over to it in one step.

Several states may be on their way at once; the newest wins, endpoint by endpoint, so that a rollback never waits for a load.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from falaj.base.errors import Unavailable
from falaj.serving.plane.core.fleet import Fleet
from falaj.serving.plane.core.grants import Grants
from falaj.serving.plane.core.lives import Live
from falaj.serving.plane.core.models import Model
from falaj.serving.plane.core.reading import Open
from falaj.serving.plane.shares import Shares
from falaj.serving.states import Endpoint, State

_LOOKS: Final = 0.25  # seconds, for whether those that are waited for will come at all


class Adoption:
    """`watch` is told of an endpoint that goes by another split now. `lives` are all endpoints by their id."""

    def __init__(self, grants: Grants, fleet: Fleet, waiting: Shares, random: Random, watch: Callable[[Live], None]) -> None:
        self.lives: dict[str, Live] = {}
        self._leaving: list[Model] = []
        self._trying: set[asyncio.Task[None]] = set()
        self._names: dict[str, dict[str, Live]] = {}  # by project; what a grant holds on to, so each stays the same object
        self._grants, self._fleet, self._waiting, self._random, self._watch = grants, fleet, waiting, random, watch

    def names_of(self, project: str) -> Mapping[str, Live]:
        return self._names.setdefault(project, {})

    async def adopt(self, state: State, read: Open, broken: Collection[str], unloaded: Collection[str]) -> dict[str, str]:
        """Gives, by revision, why it cannot be served."""
        self._grants.adopt(state.issuer, state.token_keys, state.revoked)
        self._fleet.read_with(read)
        self._forget_others(state)
        put_out = frozenset(unloaded)
        lives = [self._prepare(endpoint, frozenset(broken), out=endpoint.id in put_out) for endpoint in state.endpoints]
        await self._settle_all(dict(zip(lives, state.endpoints, strict=True)))
        models = [model for live in lives for model in live.models.values()]
        return {model.revision.id: model.problem for model in models if model.problem and not model.retired}

    async def load(self, live: Live) -> None:
        """All that the split needs, at once; raises where one of them cannot be loaded."""
        if live.put_out:
            self._put_out(live, out=False)
            self._swap(live, live.wanted, _may_answer)  # who asks from now on waits
            await self._settle(live, live.wanted)
        if not live.arms:
            raise live.unavailable()
        await asyncio.gather(*(self._fleet.ensure(model) for model in live.arms))
        for model in live.arms:
            if model.problem:
                raise Unavailable(model.problem, delay=5.0)

    async def unload(self, live: Live) -> None:
        """Nobody else is let in until it is loaded; out of memory when those who were let in are answered."""
        self._put_out(live, out=True)
        self._swap(live, live.split, _may_answer)
        await asyncio.gather(*(self._fleet.unloaded(model) for model in live.models.values()))

    def _put_out(self, live: Live, *, out: bool) -> None:
        live.put_out = out
        for model in live.models.values():
            model.put_out = out
            if out:
                self._fleet.unload(model)

    def say_goodbye(self) -> list[Model]:
        """Models that no state names any more, until they have answered their last request and been reported once more."""
        leaving = self._leaving
        self._leaving = [model for model in leaving if self._fleet.is_busy(model)]
        return leaving

    def try_again(self, now: float) -> None:
        """What could not be loaded may be loadable by now: fetched anew, or with more memory to be had."""
        for live in self.lives.values():
            arms = [live.models.get(arm.revision) for arm in live.wanted.arms if arm.share > 0]
            failed = [model for model in arms if model is not None and model.problem and not model.broken]
            if failed and not live.put_out and all(model.retry_at <= now and not model.is_loading for model in failed):
                task = asyncio.get_running_loop().create_task(self._settle(live, live.wanted))
                self._trying.add(task)
                task.add_done_callback(self._trying.discard)

    def _forget_others(self, state: State) -> None:
        named = {endpoint.id for endpoint in state.endpoints}
        for id in [id for id in self.lives if id not in named]:
            live = self.lives.pop(id)
            del self._names[live.endpoint.project][live.endpoint.name]
            for model in live.models.values():
                self._let_go(model)

    def _prepare(self, endpoint: Endpoint, broken: frozenset[str], *, out: bool) -> Live:
        """Limits and quarantine hold at once. A new endpoint is there at once, too: who asks waits for it to be loaded."""
        live = self.lives.get(endpoint.id)
        new = live is None
        if live is None:
            live = self.lives[endpoint.id] = Live(endpoint, self._waiting, self._random)
        self._names.setdefault(endpoint.project, {})[endpoint.name] = live
        live.wanted = endpoint
        live.configure(endpoint)
        for revision in endpoint.revisions:
            model = live.models.get(revision.number)
            if model is None:
                model = live.models[revision.number] = Model(endpoint, revision, live.gate)
            elif model.revision.lookups != revision.lookups:  # they are kept in another way now: loaded anew, it sees them
                model.revision = revision
                self._fleet.unload(model)
            model.broken = revision.quarantined or revision.id in broken
        for model in live.models.values():
            model.endpoint = endpoint
            self._fleet.aim(model)
        self._put_out(live, out=out)
        if new or out:
            self._swap(live, endpoint, _may_answer)
        elif any(model.broken for model in live.arms):
            self._swap(live, replace(live.split, fallback=endpoint.fallback), _may_answer)
        if not live.arms:  # nothing is lost by going by the new split while it is loaded
            self._swap(live, endpoint, _may_answer)
        return live

    async def _settle_all(self, wanted: Mapping[Live, Endpoint]) -> None:
        """Those with a model that takes very long to load go on by themselves: one project's must not hold up the others'."""
        settling = {asyncio.ensure_future(self._settle(live, endpoint)): live for live, endpoint in wanted.items()}
        waiting = set(settling)
        while waiting and not all(settling[task].is_late() for task in waiting):
            done, waiting = await asyncio.wait(waiting, timeout=_LOOKS)
            for task in done:
                task.result()
        for task in waiting:
            self._trying.add(task)
            task.add_done_callback(self._trying.discard)

    async def _settle(self, live: Live, endpoint: Endpoint) -> None:
        """Load what the split needs, then go by it; unless a newer state came meanwhile, which does it itself."""
        if live.put_out:
            self._retire(live, set())
            return
        arms = [live.models[arm.revision] for arm in endpoint.arms if arm.share > 0 and arm.revision in live.models]
        await self._load([model for model in arms if not model.broken])
        fallback = live.models.get(endpoint.fallback)
        if fallback is not None and not fallback.broken and any(not _can_answer(model) for model in arms):
            await self._load([fallback])
        if live.wanted is not endpoint or live.put_out:
            return
        live_arms = [live.models.get(arm.revision) for arm in endpoint.arms if arm.share > 0 and arm.role == "live"]
        failed = any(model is None or (model.problem and not model.broken) for model in live_arms)
        if failed and live.split is not endpoint and live.arms and all(_can_answer(model) for model in live.arms):
            self._retire(live, {model.revision.number for model in live.arms})  # the old split goes on
            return
        self._swap(live, endpoint, _can_answer)
        self._retire(live, set())

    async def _load(self, models: list[Model]) -> None:
        """What is out of memory because nobody asked for it stays there until somebody does."""
        await asyncio.gather(*(self._fleet.ensure(model) for model in models if model.shape is None or model.problem))
        for model in models:
            self._fleet.complete(model)  # a rung's file may have come since

    def _swap(self, live: Live, endpoint: Endpoint, usable: Callable[[Model], bool]) -> None:
        live.swap(endpoint, lambda number: number in live.models and usable(live.models[number]))
        self._watch(live)

    def _retire(self, live: Live, kept: set[int]) -> None:
        kept = kept | {revision.number for revision in live.endpoint.revisions}
        for number in [number for number in live.models if number not in kept]:
            self._let_go(live.models.pop(number))

    def _let_go(self, model: Model) -> None:
        self._fleet.retire(model)
        self._leaving.append(model)


def _may_answer(model: Model) -> bool:
    """Perhaps after it was loaded."""
    return not (model.broken or model.problem or model.put_out)


def _can_answer(model: Model) -> bool:
    """It is in memory, or was and can be again."""
    return _may_answer(model) and model.shape is not None
