"""What a session is fed with: batches in a known order, counted, from as many loader processes as it takes to hide them."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from falaj.training.checkpoints.loaders import ResumableLoader, has_known_order, resumable
from falaj.training.probing import LoaderSearch, Loading

_AHEAD: Final = 2  # batches, of each loader process

Ahead = Callable[[Iterable[Any]], Iterable[Any]]


class Feed:
    """The loaders of one session, in the order in which they first came: so a checkpoint knows them again.

    A plain `DataLoader` gives its samples in an order that the seed alone decides, dealt out to the processes of the training
    where they are to be `dealt`. Other loaders are `counted` if there are checkpoints, and else left as they are.
    """

    def __init__(
        self,
        ahead: Ahead,
        *,
        seed: int,
        dealt: bool,
        counted: bool,
        workers: int | None = None,
        search: Callable[[], LoaderSearch] | None,
        chosen: Callable[[Loading], None],
        trained: Callable[[], bool],
    ) -> None:
        """`trained` is asked after each batch, whether a step was taken with it; `chosen` is told what was found to be best.
        `workers` are the loader processes that were asked for; without them they are found by `search`."""
        self._ahead, self._seed, self._dealt, self._counted, self._workers = ahead, seed, dealt, counted, workers
        self._search, self._chosen, self._trained_with = search, chosen, trained
        self._sources: list[_Source] = []
        self._resumed: list[dict[str, Any]] = []
        self._trained = 0

    @property
    def epoch(self) -> int:
        """Of the loader that the training takes its steps with."""
        states = self.state_dict()["loaders"]
        return int(states[self._trained]["epoch"]) if states else 0

    def over(self, loader: Any) -> Iterator[Any]:
        """What is left of the loader's present epoch; its next one the next time."""
        known = has_known_order(loader)
        if not (known or self._counted):
            yield from self._ahead(loader)
            return
        number = self._number(loader)
        source, search = self._sources[number].counted, self._sources[number].search
        found: Loading | None = None
        while True:
            if found is not None:
                source.use(workers=found.workers, ahead=found.ahead)
            for batch, waited in _timed(source):
                began = time.perf_counter()
                yield batch
                if self._trained_with():
                    self._trained = number
                    found = search.told(waited, time.perf_counter() - began) if search is not None else None
                    if found is not None:
                        self._chosen(found)
                        if found.workers != source.loader.num_workers:
                            break
            else:
                return

    def state_dict(self) -> dict[str, Any]:
        here = [source.counted.state_dict() for source in self._sources]
        return {"loaders": here + self._resumed[len(here) :], "trained": self._trained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._resumed, self._trained = list(state["loaders"]), state["trained"]
        for source, resumed in zip(self._sources, self._resumed, strict=False):
            source.counted.load_state_dict(resumed)

    def close(self) -> None:
        for source in self._sources:
            source.counted.close()

    def _number(self, loader: Any) -> int:
        """Which one it is; one that is made anew for each epoch is the same one."""
        for number, source in enumerate(self._sources):
            if source.loader is loader or (_alike(loader) is not None and _alike(loader) == _alike(source.loader)):
                return number
        number = len(self._sources)
        resumed = self._resumed[number] if number < len(self._resumed) else None
        seed = self._seed if resumed is None else resumed["seed"]
        counted = resumable(loader, seed=seed, ahead=self._ahead, dealt=self._dealt)
        if resumed is not None:
            counted.load_state_dict(resumed)
        known = has_known_order(loader)
        if known and self._workers is not None:
            counted.use(workers=self._workers, ahead=_AHEAD)
        search = self._search() if known and self._search is not None and not loader.num_workers else None
        self._sources.append(_Source(loader, counted, search))
        return number


class _Source(NamedTuple):
    loader: Any
    counted: ResumableLoader
    search: LoaderSearch | None


def _alike(loader: Any) -> tuple[Any, ...] | None:
    return (id(loader.dataset), loader.batch_size, type(loader.sampler)) if has_known_order(loader) else None


def _timed(source: ResumableLoader) -> Iterator[tuple[Any, float]]:
    """Each batch with the seconds that it was waited for."""
    began = time.perf_counter()
    for batch in source:
        yield batch, time.perf_counter() - began
        began = time.perf_counter()
