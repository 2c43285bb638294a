"""Where each loader of a session stands. `feeding` gives out its batches."""

from typing import Any, Final

from falaj.training.checkpoints.loaders import ResumableLoader
from falaj.training.checkpoints.orders import Position
from falaj.training.probing import LoaderSearch, Loading

_PASS: Final = 1 << 32  # beyond the number of any epoch


class Source:
    """A loader whose batches are counted, and what was found out about the processes it needs."""

    def __init__(self, loader: Any, counted: ResumableLoader, search: LoaderSearch | None) -> None:
        self.loader, self.counted, self.search = loader, counted, search
        self.found: Loading | None = None

    def succeed(self, other: "Source") -> None:
        """This one was made anew for what the other one did: nothing has to be found out again."""
        if self.search is None or other.search is None:
            return
        other.counted.close()
        self.search, self.found = other.search, other.found
        if self.found is not None:
            self.counted.use(workers=self.found.workers, ahead=self.found.ahead)


class Place:
    """The how-manieth loader of its epoch it is. Each time it is read through is a pass, and has an order of its own."""

    def __init__(self, number: int, source: Source) -> None:
        self.number, self.source = number, source
        self.position = Position()
        self.given_at: int | None = None  # after so many steps it gave its last batch; None while nobody reads
        self._trained_at: Position | None = None  # with the batches up to there steps were taken
        self._passes = 0
        self._done = self._resumed = False

    def begin(self, epoch: int) -> None:
        """Goes on, or else begins with the next pass."""
        if not self.goes_on:
            self.position = Position(epoch=epoch + (self.number + self._passes) * _PASS)
            self._passes += 1
        self._done = self._resumed = False

    @property
    def goes_on(self) -> bool:
        """Only what steps are taken with: an evaluation that is broken off begins at its start the next time."""
        return self._is_trained and not self._done and (self._resumed or not self._is_read)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of the pass that steps were taken with; None were taken: it does not count."""
        return not self._is_trained or self._done or self._is_read

    @property
    def trained(self) -> bool:
        return self._trained_at is not None

    def stepped(self) -> None:
        """A step was taken with the last batch."""
        self._trained_at = self.position

    def end(self) -> None:
        self._done = True

    def follow(self, other: "Place") -> None:
        """The same loader in the epoch before: what it was broken off in goes on."""
        if other.goes_on:
            self.position, self._trained_at = other.position, other._trained_at

    def state(self, *, over: bool) -> dict[str, Any]:
        """After a restart an evaluation begins anew, and a pass of the training goes on unless it is `over` and done with."""
        evaluated = self.given_at is not None and not self._is_trained
        position = self.position if self._is_trained else self._trained_at
        counted = None if over or position is None else {"epoch": position.epoch, "consumed": position.consumed}
        return {"passes": self._passes - evaluated, "unit": self.source.counted.unit, "trained": counted}

    def resume(self, state: dict[str, Any], seed: int) -> None:
        self._passes = state["passes"]
        if (trained := state["trained"]) is not None:
            self.source.counted.load_state_dict(trained | {"unit": state["unit"], "seed": seed})
            self.position = self._trained_at = self.source.counted.position
            self._resumed = True

    @property
    def _is_trained(self) -> bool:
        """The present pass."""
        return self._trained_at is not None and self._trained_at.epoch == self.position.epoch

    @property
    def _is_read(self) -> bool:
        return self.source.counted.nothing_follows(self.position)
