"""Variants for whoever deploys them, with what their certificates are worth at that moment."""

from collections.abc import Sequence

from falaj.database.work import Context
from falaj.optimisation.certifying import Certifier, Served
from falaj.optimisation.store import variants as store
from falaj.optimisation.store.tables import Found
from falaj.optimisation.views import in_place, required_variant
from falaj.registry.project_keys import ProjectSigners


class Deployable:
    """Thread-safe. Reads within the caller's transaction."""

    def __init__(self, signers: ProjectSigners) -> None:
        self._certifier = Certifier(signers)

    def named(self, context: Context, version: Found, name: str) -> Served:
        """Raises `NotFound`, with the names there are."""
        row = required_variant(context, version.model_name, version.number, name)
        return self._certifier.served(context, row, version)

    def certified(self, context: Context, version: Found) -> Sequence[Served]:
        """Those with a valid certificate, one of each name, the slowest first. A later search that allowed more to be lost does
        not hide what an earlier one showed more closely."""
        found: dict[str, Served] = {}
        rows = store.of_version(context.work, version.id)  # newest optimisations first
        for row in in_place(row for row in rows if row.state == store.CERTIFIED):
            if row.name not in found and (served := self._certifier.served(context, row, version)).certificate:
                found[row.name] = served
        return sorted(found.values(), key=lambda one: (one.times, one.row.id))
