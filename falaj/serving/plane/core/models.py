"""One revision in this worker: loaded or not, with what it did. `fleet` loads and unloads; `lives` says who gets it."""

from collections import deque

from falaj.base.values import value
from falaj.runtimes.engine import TensorSpec
from falaj.serving.operations.planes import RevisionReport
from falaj.serving.plane.asking import Ask
from falaj.serving.plane.core.admission import Gate
from falaj.serving.plane.core.batches import After, AfterFailure, Batches
from falaj.serving.plane.core.counts import Counts
from falaj.serving.plane.core.grants import Grant
from falaj.serving.plane.lookups.joining import Lookup
from falaj.serving.states import Endpoint, Revision


@value
class Shape:
    """What a model takes and gives, remembered while it is out of memory."""

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    columns: tuple[str, ...]
    lookup: Lookup | None = None


@value
class Parked:
    """A request that waits for its model to be loaded; `weight` is what it takes of the memory for those that wait."""

    ask: Ask
    grant: Grant
    weight: int


class Model:
    """`batches` is there while the model is in memory, `lookup` where features are looked up before it is asked. `problem`
    says why it could not be loaded, and `retry_at` when the next request may try again. `put_out` is true while somebody has
    the endpoint unloaded, `broken` while it must not run here (it is in quarantine), `retired` once no state names it."""

    def __init__(self, endpoint: Endpoint, revision: Revision, gate: Gate) -> None:
        self.endpoint = endpoint
        self.revision = revision
        self.gate = gate
        self.batches: Batches | None = None
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
        """Of its files, in bytes."""
        return sum(file.size for file in self.revision.files)

    @property
    def used(self) -> float:
        return self.batches.used if self.batches is not None else self.last_used

    def watch(self, after: After | None, after_failure: AfterFailure | None) -> None:
        """Have somebody told of its answers and failures, also after it was loaded again."""
        self.after, self.after_failure = after, after_failure
        for place in self.batches.places if self.batches is not None else ():
            place.after, place.after_failure = after, after_failure

    def report(self) -> RevisionReport:
        return self.counts.report(
            self.endpoint.id,
            self.revision.number,
            ready=self.shape is not None and not self.problem and not self.broken,
            problem=self.problem,
            quarantined=self.broken,
            batch_size=self.batches.size.size if self.batches is not None else 0,
        )
