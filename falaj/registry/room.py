"""The room as a whole: every service of it, built from what it stands on."""

from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.governance.gate import Gatekeeper
from falaj.registry.approvals import ApprovalService
from falaj.registry.evidence import EvidenceService
from falaj.registry.history import HistoryService
from falaj.registry.models import ModelService
from falaj.registry.project_keys import ProjectSigners, SigningKeyService
from falaj.registry.promotions import PromotionService
from falaj.registry.registering import RegistrationService
from falaj.registry.sources import Dependents, Sources
from falaj.registry.verifying import VerificationService, Verifier
from falaj.registry.versions import VersionService
from falaj.storage.service import BlobService


class Registry:
    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        sources: Sources,
        signers: ProjectSigners,
        gate: Gatekeeper,
        dependents: Dependents | None = None,
    ) -> None:
        verifier = Verifier(signers, blobs)
        versions = VersionService(blobs, sources, verifier, dependents)
        promotions = PromotionService(gate, verifier, sources)
        self._services = (
            ModelService(versions, promotions),
            versions,
            RegistrationService(database, blobs, sources, signers),
            VerificationService(database, blobs, verifier),
            promotions,
            ApprovalService(),
            EvidenceService(),
            HistoryService(),
            SigningKeyService(signers),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]
