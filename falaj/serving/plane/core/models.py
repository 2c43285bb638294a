"""One revision in this worker: loaded or not, with what it did. `fleet` loads and unloads; `lives` says who gets it.

It may have several forms: its own, and faster variants of it, the rungs of its ladder. `ladders` says which of them answers.
"""

from collections import deque

from falaj.base.values import value
from falaj.runtimes.engine import TensorSpec
from falaj.serving.operations.planes import Latency, RevisionReport, RungReport
from falaj.serving.operations.words import ORIGINAL
from falaj.serving.plane.asking import Ask
from falaj.serving.plane.core.admission import Gate
from falaj.serving.plane.core.batches import Batches
from falaj.serving.plane.core.counts import Counts, Tally
from falaj.serving.plane.core.falling import Course
from falaj.serving.plane.core.gathering import After, AfterFailure
from falaj.serving.plane.core.grants import Grant
from falaj.serving.plane.lookups.joining import Lookup
from falaj.serving.states import Endpoint, Revision


@value
class Shape:
    """What a model takes and gives, remembered while it is out of memory. Where it `batches`, the first axis counts rows."""

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    columns: tuple[str, ...]
    lookup: Lookup | None = None
    batches: bool = True


@value
class Parked:
    """A request that waits for its model to be loaded; `weight` is what it takes of the memory for those that wait."""

    ask: Ask
    grant: Grant
    weight: int


class Rung:
    """One of the forms that a model can answer in: `form` is the revision as such. `batches` is there while it is in memory;
    `remark` says why it is not, and `is_unfit` that this will not change on this host. A row took `row_s` seconds when it was
    loaded, among as many as it runs at once; `latency` is of one row alone, where that was certified elsewhere."""

    def __init__(self, form: Revision) -> None:
        self.form = form
        self.name = form.variant or ORIGINAL
        self.tally = Tally()
        self.batches: Batches | None = None
        self.row_s = 0.0
        self.latency: Latency | None = None
        self.remark = ""
        self.is_unfit = False
        self._told = 0, 0

    @property
    def size(self) -> int:
        """Of its files, in bytes."""
        return sum(file.size for file in self.form.files)

    @property
    def is_usable(self) -> bool:
        return self.batches is not None and not self.batches.is_shut

    def report(self) -> RungReport:
        """What it did since this was last asked."""
        (requests, falls), self._told = self._told, (self.tally.requests, self.tally.falls)
        return RungReport(
            name=self.name,
            requests=self.tally.requests - requests,
            falls=self.tally.falls - falls,
            latency=self.latency,
            remark=self.remark[:2000],
        )


class Model:
    """`batches` is there while the model is in memory: those of the rung that answers now, at place `at` of `rungs`, the first
    of which is its own form. `lookup` is there where features are looked up before it is asked. `problem`
    says why it could not be loaded, and `retry_at` when the next request may try again. `put_out` is true while somebody has
    the endpoint unloaded, `broken` while it must not run here (it is in quarantine), `retired` once no state names it."""

    def __init__(self, endpoint: Endpoint, revision: Revision, gate: Gate) -> None:
        self.endpoint = endpoint
        self.revision = revision
        self.gate = gate
        self.batches: Batches | None = None
        self.rungs = (Rung(revision), *(Rung(revision.as_rung(rung)) for rung in revision.ladder))
        self.at = 0
        self.course = Course()
        self.shape: Shape | None = None
        self.lookup: Lookup | None = None
        self.after: After | None = None
        self.after_failure: AfterFailure | None = None
        self.counts = Counts()
        self.parked: deque[Parked] = deque()
        self.problem = ""
        self.retry_at = 0.0
        self.failures = 0
        self.put_out = False
        self.broken = False
        self.retired = False
        self.is_loading = False
        self.loading_since = 0.0  # monotonic, while a thread loads it
        self.is_late = False  # it takes so long to load that the others go on without it
        self.last_used = 0.0

    @property
    def size(self) -> int:
        """Of its own files, in bytes."""
        return self.rungs[0].size

    @property
    def size_in_memory(self) -> int:
        """With those of the rungs that are there."""
        return self.size + sum(rung.size for rung in self.rungs[1:] if rung.batches is not None)

    @property
    def own(self) -> Batches | None:
        """Those of its own form, by which every place is found that runs for it."""
        return self.rungs[0].batches

    @property
    def places(self) -> tuple[Batches, ...]:
        return self.own.places if self.own is not None else ()

    @property
    def rows_waiting(self) -> int:
        """Rows that wait for it or are in it, in whichever form and place."""
        return sum(place.rows_waiting + place.long_rows for place in self.places)

    @property
    def used(self) -> float:
        return self.own.used if self.own is not None else self.last_used

    @property
    def variant(self) -> str:
        """What answers of its own form say it is: nothing where there is no other."""
        return self.rungs[0].name if len(self.rungs) > 1 else self.revision.variant

    def stand_on(self, place: int) -> None:
        """Answer by this rung from now on; what waits at the one before is answered there."""
        self.at, self.batches = place, self.rungs[place].batches

    def leave_memory(self) -> Batches | None:
        """Gives what is to be closed."""
        own = self.own
        self.last_used = self.used
        for rung in self.rungs:
            rung.batches = None
        self.stand_on(0)
        self.course = Course()
        return own

    def watch(self, after: After | None, after_failure: AfterFailure | None) -> None:
        """Have somebody told of its answers and failures, also after it was loaded again."""
        self.after, self.after_failure = after, after_failure
        for place in self.places:
            place.after, place.after_failure = after, after_failure

    def report(self) -> RevisionReport:
        return self.counts.report(
            self.endpoint.id,
            self.revision.number,
            ready=self.shape is not None and not self.problem and not self.broken,
            problem=self.problem,
            quarantined=self.broken,
            batch_size=self.batches.size.size if self.batches is not None else 0,
            rungs=tuple(rung.report() for rung in self.rungs) if self.variant else (),
        )
