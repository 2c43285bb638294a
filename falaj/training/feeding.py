"""What a session is fed with: batches in a known order, counted, from as many loader processes as it takes to hide them."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, Protocol

from falaj.training.checkpoints.loaders import ResumableLoader, has_known_order, resumable
from falaj.training.places import Place, Source
from falaj.training.probing import LoaderSearch, Loading

_AHEAD: Final = 2  # batches, of each loader process

Ahead = Callable[[Iterable[Any]], Iterable[Any]]


class Training(Protocol):
    """Whom a feed serves."""

    @property
    def steps(self) -> int: ...

    def given(self, *, known: bool) -> None:
        """The last batch was used; the loader's order is `known`, and so all processes take as many."""

    def chosen(self, found: Loading) -> None:
        """So many loader processes were found to be best."""

    def read_through(self) -> None:
        """Nothing is left of what steps were taken with."""

    def moved_on(self) -> bool:
        """Whether the author's loop has ended its epoch since then."""


class Feed:
    """The loaders of one session. A checkpoint knows a loader by its place: the first one that was read since the epoch began,
    the second one, and so on. So one may be made anew for every epoch.

    A plain `DataLoader` gives its samples in an order that the seed alone decides, dealt out to the processes of the training
    where they are to be `dealt`. Other loaders are `counted` if there are checkpoints, and else left as they are.
    """

    def __init__(
        self,
        training: Training,
        ahead: Ahead,
        *,
        seed: int,
        dealt: bool,
        counted: bool,
        workers: int | None = None,
        search: Callable[[], LoaderSearch] | None,
    ) -> None:
        """`workers` are the loader processes that were asked for; without them they are found by `search`."""
        self.epoch = 0
        self._training, self._ahead, self._seed, self._dealt, self._counted = training, ahead, seed, dealt, counted
        self._workers, self._search = workers, search
        self._places: list[Place] = []
        self._before: list[Place] = []  # of the epoch before
        self._resumed: dict[str, Any] | None = None
        self._by_epochs = False  # what is read before the first one is counted apart
        self._read_at: int | None = None  # after so many steps nothing was left to train with

    def begin(self, epoch: int) -> None:
        """An epoch of the training begins."""
        used = [place.source for place in self._places]
        for place in self._before:
            if place.source not in used:
                place.source.counted.close()
        if epoch != self.epoch:
            self._resumed = None
        self.epoch, self._before, self._places = epoch, self._places, []
        self._by_epochs, self._read_at = True, None

    def over(self, loader: Any) -> Iterator[Any]:
        """The loader's batches; of one that steps were taken with, those that are left."""
        if not (has_known_order(loader) or self._counted):
            yield from self._ahead(loader)
            return
        place = self._place_of(loader)
        place.begin(self.epoch)
        try:
            while (found := (yield from self._batches(place))) is not None:
                place.source.counted.use(workers=found.workers, ahead=found.ahead)
        finally:
            self._mark()
            place.given_at = None

    def state_dict(self) -> dict[str, Any]:
        self._mark()
        over = self._read_at == self._training.steps and all(place.is_over for place in self._places)
        over = over and self._training.moved_on()
        common = {"seed": self._seed, "by_epochs": self._by_epochs}
        if over and self._by_epochs:
            return common | {"epoch": self.epoch + 1, "places": []}
        if self._resumed is not None and not self._is_there:
            return self._resumed
        here = [place.state(over=over) for place in self._places]
        return common | {"epoch": self.epoch, "places": here + self._still_to_come[len(here) :]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Before the first batch."""
        self._seed, self.epoch, self._resumed = state["seed"], state["epoch"], state

    def close(self) -> None:
        for place in [*self._before, *self._places]:
            place.source.counted.close()

    @property
    def _is_there(self) -> bool:
        """Whether the loop has come to where it was saved: in an epoch, or outside of them."""
        return self._resumed is not None and self._resumed["by_epochs"] == self._by_epochs

    @property
    def _still_to_come(self) -> list[dict[str, Any]]:
        return self._resumed["places"] if self._resumed is not None and self._is_there else []

    def _batches(self, place: Place) -> Generator[Any, None, Loading | None]:
        """What is left of the present pass, unless other loader processes were found to be better: those it gives back."""
        source, training = place.source, self._training
        source.counted.position = place.position
        for batch, waited in _timed(source.counted):
            began = time.perf_counter()
            place.position, place.given_at = source.counted.position, training.steps
            yield batch
            computed = time.perf_counter() - began
            trained = training.steps != place.given_at
            self._mark()
            training.given(known=source.counted.unit == "samples")
            if trained and (found := self._found(source, waited, computed)) is not None:
                return found
        place.end()
        if place.trained:
            self._read_at = training.steps
            training.read_through()
        if not self._by_epochs:  # who makes a loader anew each time would leave processes behind
            source.counted.close()
        return None

    def _found(self, source: Source, waited: float, computed: float) -> Loading | None:
        found = None if source.search is None else source.search.told(waited, computed)
        if found is None:
            return None
        source.found = found
        self._training.chosen(found)
        return found if found.workers != source.counted.loader.num_workers else None

    def _mark(self) -> None:
        """Several loaders may take part in one step: all that gave a batch before it."""
        for place in self._places:
            if place.given_at not in (None, self._training.steps):
                place.stepped()

    def _place_of(self, loader: Any) -> Place:
        for place in self._places:
            if place.source.loader is loader:
                return place
        number = len(self._places)
        before = next((one for one in self._before if one.source.loader is loader), None)
        place = Place(number, self._source(loader, number) if before is None else before.source)
        if before is not None:
            place.follow(before)
        if number < len(self._still_to_come):
            place.resume(self._still_to_come[number], self._seed)
        self._places.append(place)
        return place

    def _source(self, loader: Any, number: int) -> Source:
        counted = resumable(loader, seed=self._seed, ahead=self._ahead, dealt=self._dealt)
        known = has_known_order(loader)
        if known and self._workers is not None:
            counted.use(workers=self._workers, ahead=_AHEAD)
        searched = known and self._search is not None and not loader.num_workers
        source = Source(loader, counted, self._search() if searched and self._search is not None else None)
        if number < len(self._before):
            source.succeed(self._before[number].source)
        return source


def _timed(source: ResumableLoader) -> Iterator[tuple[Any, float]]:
    """Each batch with the seconds that it was waited for."""
    began = time.perf_counter()
    for batch in source:
        yield batch, time.perf_counter() - began
        began = time.perf_counter()
