"""What of a dataset a caller may not see: its columns that are classified, unless policy says that he may."""

from falaj.base.errors import FalajError
from falaj.database.work import Context
from falaj.datasets.operations.classes import CLASSIFY_COLUMNS, ClassifyColumns
from falaj.datasets.store import classes as store
from falaj.datasets.store.tables import Found
from falaj.governance.gate import Gatekeeper


class Sight:
    """Thread-safe."""

    def __init__(self, gate: Gatekeeper) -> None:
        self._gate = gate

    def masked(self, context: Context, dataset: Found) -> tuple[str, ...]:
        """Columns whose values are kept from the caller."""
        classified = store.classes_of(context.work, dataset.id)
        return tuple(classified) if classified and not self._may_see(context, dataset) else ()

    def sees_everything(self, context: Context, dataset: Found) -> bool:
        """Whether nothing in the dataset's whole project is kept from the caller."""
        return not store.any_in(context.work, context.required_project.id) or self._may_see(context, dataset)

    def _may_see(self, context: Context, dataset: Found) -> bool:
        """Whoever may classify columns sees them."""
        asked = ClassifyColumns(project=context.required_project.name, dataset=dataset.name)
        try:
            self._gate.authorise(context.work, context.identity, CLASSIFY_COLUMNS, asked)
        except FalajError:
            return False
        return True
