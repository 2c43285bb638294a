"""What becomes of a version that failed a check: somebody releases it, in spite of what was found, or drops it."""

from falaj.base.errors import Conflict
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.checking.verdicts import Verdicts
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.operations import checks as declared
from falaj.datasets.operations.versions import OneVersion, Version
from falaj.datasets.publishing import Draft, Placed, publish
from falaj.datasets.store import derivations as derivation_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import derivation_of, required_dataset, required_version, schema_of


class QuarantineService:
    def __init__(self, verdicts: Verdicts, letting_go: LettingGo) -> None:
        self._verdicts = verdicts
        self._letting_go = letting_go

    def bindings(self) -> list[Bound]:
        return [bind(declared.RELEASE_VERSION, self.release), bind(declared.DROP_VERSION, self.drop)]

    def release(self, context: Context, request: OneVersion) -> Version:
        dataset = required_dataset(context, request.dataset, hold=True)
        version = _waiting(context, dataset, request.version)
        made = publish(context, dataset, _draft(context, dataset, version))
        self._decide(context, dataset, version)
        context.facts["released"] = version.id
        return made

    def drop(self, context: Context, request: OneVersion) -> Nothing:
        dataset = required_dataset(context, request.dataset, hold=True)
        version = _waiting(context, dataset, request.version)
        self._decide(context, dataset, version)
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        return Nothing()

    def _decide(self, context: Context, dataset: Found, version: Found) -> None:
        """Its number stays, and is nothing that can be read any more; what was released has another."""
        self._verdicts.decided(context, version.id)
        store.prune(context.work, dataset.id, [version.number], context.now)
        self._letting_go.of_pruned(context, dataset.id)


def _waiting(context: Context, dataset: Found, word: str) -> Found:
    version = required_version(context, dataset, word, quarantined_too=True)
    if version.line == store.PUBLISHED:
        raise Conflict(f"Version {version.number} of {dataset.name!r} is published, and not in quarantine.")
    return version


def _draft(context: Context, dataset: Found, version: Found) -> Draft:
    """Where others were published since, what was to be appended goes behind them; anything else is a conflict."""
    parts = store.parts_of(context.work, version)
    schema, origin = schema_of(version), version.origin
    if dataset.current == version.parent:
        added = [Placed(part=part.id, position=part.position, renamed=part.renamed) for part in parts]
        made = derivation_store.of_versions(context.work, [version.id]).get(version.id)
        derivation = None if made is None else derivation_of(made)
        return Draft(mode="release", schema=schema, removed=None, added=added, origin=origin, derivation=derivation)
    current = store.find(context.work, dataset.id, dataset.current)
    if version.mode != "append" or current is None or schema_of(current) != schema:
        raise Conflict(
            f"Version {dataset.current} of {dataset.name!r} came after the one that version {version.number} was made from: "
            "drop it, and write it again."
        )
    behind = [part for part in parts if part.known is None]
    return Draft(
        mode="release",
        schema=schema,
        removed=(),
        added=[Placed(part=part.id, renamed=part.renamed) for part in behind],
        origin=origin,
    )
