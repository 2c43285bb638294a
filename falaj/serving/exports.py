"""What leaves for hosts of others: files of revisions, states of one endpoint alone, and the secret of its callbacks."""

from falaj.base.errors import Conflict, NotFound
from falaj.base.operation import Download
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.keys.signing import SigningKeys
from falaj.serving import callback_secrets
from falaj.serving.deployed_files import DeployedFiles
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations import exports as exported
from falaj.serving.planes import trusted_keys
from falaj.serving.publishing import Publisher
from falaj.serving.splits import Arms, read_arms
from falaj.serving.store import endpoints as store
from falaj.serving.store.tables import Found
from falaj.serving.views import required_endpoint


class ExportService:
    def __init__(self, *, keys: SigningKeys, publisher: Publisher, files: DeployedFiles) -> None:
        self._keys = keys
        self._publisher = publisher
        self._files = files

    def bindings(self) -> list[Bound]:
        return [
            bind(exported.READ_REVISION_FILE, self.file),
            bind(exported.READ_BUNDLE, self.bundle),
            bind(exported.READ_CALLBACK_SECRET, self.callback_secret),
        ]

    def file(self, context: Context, request: exported.ReadRevisionFile) -> Download:
        endpoint = required_endpoint(context, request.endpoint)
        return self._files.download(context, endpoint.name, _revision(context, endpoint, request.revision), request.file)

    def bundle(self, context: Context, request: exported.ReadBundle) -> exported.Bundle:
        endpoint = required_endpoint(context, request.endpoint)
        revision = _revision(context, endpoint, request.revision or _busiest(read_arms(endpoint.arms)))
        name = context.required_project.name
        signed = self._publisher.alone(context.work, endpoint, name, revision, context.now)
        context.facts.update(endpoint=endpoint.id, revision=revision.id)
        return exported.Bundle(state=signed, keys=trusted_keys(self._keys, context.work))

    def callback_secret(self, context: Context, request: declared.OneEndpoint) -> exported.CallbackSecret:
        endpoint = required_endpoint(context, request.endpoint)
        context.facts.update(endpoint=endpoint.id)
        return exported.CallbackSecret(secret=callback_secrets.maker(self._keys, context.work)(endpoint.id))


def _busiest(arms: Arms) -> int:
    """The newest of those that most calls go to; 0 where there is none."""
    live = [arm for arm in arms if arm.role == "live"]
    return max(live, key=lambda arm: (arm.share, arm.revision)).revision if live else 0


def _revision(context: Context, endpoint: Found, number: int) -> Found:
    found = store.revisions_of(context.work, endpoint.id, [number]).get(number)
    if found is None:
        raise NotFound(f"Endpoint {endpoint.name!r} has no revision {number}; see `falaj endpoint revisions`.")
    if found.quarantined:
        raise Conflict(f"Revision {number} of {endpoint.name!r} is in quarantine and does not leave: {found.quarantined}")
    return found
