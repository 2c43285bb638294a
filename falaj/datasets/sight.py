"""What of a dataset a caller may not see: its columns that are classified, unless policy says that he may."""

from collections.abc import Iterable

from falaj.base.errors import FalajError, Forbidden
from falaj.database.work import Context
from falaj.datasets.carrying import spelled
from falaj.datasets.operations.classes import CLASSIFY_COLUMNS, PERSONAL, ClassifyColumns
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.operations.words import CURRENT
from falaj.datasets.store import classes as store
from falaj.datasets.store.tables import Found
from falaj.governance.gate import Gatekeeper


class Sight:
    """Thread-safe."""

    def __init__(self, gate: Gatekeeper) -> None:
        self._gate = gate

    def masked(self, context: Context, dataset: Found) -> tuple[str, ...]:
        """Columns whose values are kept from the caller, as any version spells them."""
        classified = store.classes_of(context.work, dataset.id)
        if not classified or self._may_see(context, dataset):
            return ()
        return tuple(sorted(spelled(context, dataset.id, classified)))

    def sees_everything(self, context: Context, dataset: Found) -> bool:
        """Whether nothing in the dataset's whole project is kept from the caller."""
        return not store.any_in(context.work, context.required_project.id) or self._may_see(context, dataset)

    def refuse_blind(self, context: Context, dataset: Found) -> None:
        """Raises `Forbidden` for who may write here and not read: of what he has others made of rows he is told how many there
        are, which is enough to find out what they hold. What the platform does by itself it may."""
        if context.identity.principal:
            asked = GrantRead(project=context.required_project.name, dataset=dataset.name, version=CURRENT)
            self._gate.authorise(context.work, context.identity, GRANT_READ, asked)

    def refuse_keys(self, context: Context, dataset: Found, keys: Iterable[str], doing: str) -> None:
        """Rows that are told apart by what somebody may not see tell it to him: whoever tries keys finds which there are."""
        folded = {name.casefold() for name in self.masked(context, dataset)}
        if hidden := [key for key in keys if key.casefold() in folded]:
            raise Forbidden(
                f"You may not see {', '.join(hidden)} of {dataset.name!r}, and {doing} by it would show what it holds: take "
                f"another key, or ask for the permission {PERSONAL.name}.",
                rule=PERSONAL.name,
            )

    def _may_see(self, context: Context, dataset: Found) -> bool:
        """Whoever may classify columns sees them."""
        asked = ClassifyColumns(project=context.required_project.name, dataset=dataset.name)
        try:
            self._gate.authorise(context.work, context.identity, CLASSIFY_COLUMNS, asked)
        except FalajError:
            return False
        return True
