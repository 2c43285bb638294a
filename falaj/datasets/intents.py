"""What a write is meant to do, as its row keeps it, and what of that can be refused before any byte comes."""

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import Message, value
from falaj.datasets.operations.derivations import Derivation
from falaj.datasets.operations.writing import NEWEST, OpenWrite
from falaj.datasets.store.tables import Found
from falaj.operations.messages import adapter
from falaj.tables.forms import Form
from falaj.tables.schemas import Schema, evolved


@value
class Intent(Message):
    """`held`: no version may come between, even for an append. `columns` are those that every piece is brought into; None until
    piece 1 has decided them. `derivation` is what the rows are made of."""

    form: Form
    keys: tuple[str, ...]
    where: str
    evolve: bool
    held: bool
    origin: str
    columns: Schema | None
    unless_same: bool = False
    derivation: Derivation | None = None


def intent_of(write: Found) -> Intent:
    intent: Intent = adapter(Intent).validate_json(write.settings)
    return intent


def intent_text(intent: Intent) -> str:
    return adapter(Intent).dump_json(intent).decode()


def intended(request: OpenWrite, current: Schema | None) -> Intent:
    """`current` are the columns of the version that is current, where there is one. Raises `Invalid` and `Conflict`."""
    _refuse_contradictions(request)
    if request.mode == "delete" and current is None:
        raise Conflict(f"Dataset {request.dataset!r} has no version yet: there is nothing to delete from.")
    if current is not None:
        for key in request.keys:
            current.column(key)
    decided = current is not None and request.mode != "overwrite" and not request.evolve
    return Intent(
        form=request.form,
        keys=request.keys,
        where=request.where,
        evolve=request.evolve,
        held=request.mode != "append" or request.parent != NEWEST,
        origin=request.origin,
        columns=current if decided else None,
        unless_same=request.unless_same,
    )


def next_columns(current: Schema | None, given: Schema, intent: Intent, mode: str) -> Schema:
    """The columns of the version that rows with `given` make of the current one. Raises `Conflict` where they make none."""
    if current is None or mode == "overwrite":
        return given
    joined = evolved(current, given)
    if joined != current and not intent.evolve:
        changed = sorted(set(joined.columns) - set(current.columns), key=lambda column: column.name)
        said = ", ".join(f"{column.name} ({column.type})" for column in changed)
        raise Conflict(
            f"These rows would add or widen columns: {said}. Say that they may (evolve), or bring them as the dataset has them."
        )
    return joined


def _refuse_contradictions(request: OpenWrite) -> None:
    if (request.mode == "merge") != bool(request.keys):
        raise Invalid("A merge takes the columns that tell rows apart (`--key`), and no other mode takes any.")
    if (request.mode == "delete") != bool(request.where.strip()):
        raise Invalid("A deletion says in `where` which rows go, as a condition in SQL, and nothing else does.")
    if request.derivation is not None and request.mode != "overwrite":
        raise Invalid(f"What a function made of other versions takes the place of all rows: say overwrite, not {request.mode}.")
    if request.unless_same and request.mode != "overwrite":
        raise Invalid(
            f"Rows can be the same as those that are there (unless_same) where they overwrite them: not {request.mode}."
        )
    if len(set(request.keys)) != len(request.keys):
        raise Invalid(f"A column stands twice in `keys`: {', '.join(request.keys)}.")
