"""The room as a whole: every service of it, built from what it stands on. `deployable` is apart, for those who serve."""

from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.reading import ReadService
from falaj.governance.gate import Gatekeeper
from falaj.optimisation.certifying import Certifier
from falaj.optimisation.planning import Forms, OptimisationService
from falaj.optimisation.variants import VariantService
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.verifying import Verifier
from falaj.storage.service import BlobService


class Optimisation:
    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        signers: ProjectSigners,
        gate: Gatekeeper,
        forms: Forms,
        reading: ReadService,
        price: int = 0,
        gpu_price: int = 0,
    ) -> None:
        verifier = Verifier(signers, blobs)
        self._services = (
            OptimisationService(
                database=database,
                blobs=blobs,
                verifier=verifier,
                gate=gate,
                forms=forms,
                reading=reading,
                price=price,
                gpu_price=gpu_price,
            ),
            VariantService(database=database, blobs=blobs, certifier=Certifier(signers), gate=gate),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]
