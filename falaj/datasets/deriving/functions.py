"""What a Python function made of versions. It ran in a job, which says so with the rows it writes: held here against what there
is, and against what whoever writes may see. The digest goes by the kind, so no function can pass for SQL."""

from collections.abc import Sequence

from falaj.base.errors import Invalid
from falaj.database.work import Context
from falaj.datasets.deriving.inputs import Source, derivation, one_zone, refuse_itself, source
from falaj.datasets.features.sources import refuse_hidden
from falaj.datasets.operations.derivations import Derivation, FunctionUsed
from falaj.datasets.sight import Sight


def derived_by(context: Context, sight: Sight, used: FunctionUsed) -> tuple[Derivation, Sequence[Source]]:
    """Raises `NotFound`, `Conflict` and `Forbidden` for inputs that are not there, or that the caller may not read."""
    sources = [source(context, None, reference, reference) for reference in used.inputs]
    names = [one.dataset.name for one in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"{twice[0]!r} is given twice: a function gets one table for each dataset.")
    for one in sources:
        refuse_hidden(context, sight, one.dataset, one.classes)
    found = derivation("python", used.code, [one.input() for one in sources], shown=used.function)
    return found, sources


def written_by(context: Context, sight: Sight, used: FunctionUsed, into: str, zone: str) -> Derivation:
    """Of a write to `into`, which is in this zone."""
    found, sources = derived_by(context, sight, used)
    refuse_itself(sources, into)
    one_zone(sources, into, zone)
    return found
