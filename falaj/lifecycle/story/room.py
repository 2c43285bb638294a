"""The one service of this part: it gathers in the reader's name, and then tells and proves in one transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from falaj.base.clock import Moment
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.keys.signatures import PublicKey
from falaj.lifecycle.operations.stories import READ_STORY, ReadStory, Story
from falaj.lifecycle.story.gathering import Gathered, Gathering
from falaj.lifecycle.story.proving import Proofs
from falaj.lifecycle.story.reading import MOST, Reader, Reads
from falaj.lifecycle.story.telling import people_in, told
from falaj.registry.history import facts_of
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.registry.store import moves as move_store
from falaj.registry.views import people, required_version


class Stories:
    """Thread-safe. `keys` tells every signing key of the platform; heads of the ledger are signed by some of them."""

    def __init__(self, *, database: Database, reads: Reads, keys: Callable[[UnitOfWork], Sequence[PublicKey]]) -> None:
        self._database, self._reads, self._keys = database, reads, keys

    def bindings(self) -> list[Bound]:
        return [bind_prepared(READ_STORY, self.gather, self.tell)]

    def gather(self, context: Context, request: ReadStory) -> Gathered:
        reader = Reader(self._reads, context)
        asked = OneVersion(project=request.project, model=request.model, version=request.version)
        return Gathering(self._database, reader, context, reader.must(SHOW_VERSION, asked)).gathered()

    def tell(self, context: Context, request: ReadStory, found: Gathered) -> Story:
        work = context.work
        row = required_version(context, request.model, request.version)
        names = {id: person.name for id, person in people(work, people_in(found)).items()}
        recorded = {move.id: _recorded(move) for move in move_store.newest_first(work, row.model, "", before=None, limit=MOST)}
        proofs = Proofs(work, context.required_project.id, self._keys(work))
        return told(found, project=request.project, names=names, recorded=recorded, proofs=proofs, now=context.now)


def _recorded(move: Any) -> dict[str, Any]:
    return {"recorded": Moment(move.recorded), "operation": move.operation, "said": facts_of(move._asdict())}
