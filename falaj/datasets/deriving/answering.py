"""What was derived before, answered again: within a transaction, as the current version of its dataset."""

from collections.abc import Callable, Mapping, Sequence

from falaj.database.work import Context
from falaj.datasets.operations.versions import Version
from falaj.datasets.publishing import publish
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import derivations as store
from falaj.datasets.store.tables import Found
from falaj.datasets.versions import restored
from falaj.datasets.views import schema_of, versions_shown


def made_before(context: Context, dataset: Found | None, digest: str) -> Found | None:
    """The newest version of a dataset that was made so, and can be read. Where rows are checked only the current one counts:
    others were judged by the checks of their day."""
    if dataset is None or (found := store.find_made(context.work, dataset.id, digest)) is None:
        return None
    return found if found.number == dataset.current or not check_store.declared(context.work, dataset.id) else None


def classify(context: Context, dataset: Found, kinds: Mapping[str, str]) -> None:
    """What was sensitive stays so."""
    before = class_store.classes_of(context.work, dataset.id)
    stronger = {name: kind for name, kind in kinds.items() if before.get(name) not in (kind, "sensitive")}
    class_store.change(context.work, dataset.id, stronger)


def answered(
    context: Context, dataset: Found, digest: str, classes: Callable[[Sequence[str]], Mapping[str, str]]
) -> Version | None:
    """The version that was made so, of a dataset whose row is held: where another is current, one that equals it. `classes`
    says which of its columns are classified now."""
    found = made_before(context, dataset, digest)
    if found is None:
        return None
    classify(context, dataset, classes(schema_of(found).names))
    context.facts.update(dataset=dataset.id, version=found.id, number=found.number, digest=found.digest, cached=True)
    if found.number != dataset.current:
        return publish(context, dataset, restored(context, dataset, found))
    return versions_shown(context.work, dataset, [found])[0]
