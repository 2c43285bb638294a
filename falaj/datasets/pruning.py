"""Pruning: old versions that nothing refers to cannot be read any more, and parts that only they had are shredded."""

from collections.abc import Iterator

from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.features.definitions import pinned
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.operations import tidying as declared
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import lineage_id, required_dataset
from falaj.lineage.graph import Node, descendants


class PruneService:
    def __init__(self, letting_go: LettingGo) -> None:
        self._letting_go = letting_go

    def bindings(self) -> list[Bound]:
        return [bind(declared.PRUNE_VERSIONS, self.prune)]

    def prune(self, context: Context, request: declared.PruneVersions) -> declared.Pruned:
        dataset = required_dataset(context, request.dataset, hold=True)
        gone = list(self._unneeded(context, dataset, request.keep))
        store.prune(context.work, dataset.id, [row.number for row in gone], context.now)
        self._letting_go.of_pruned(context, dataset.id)
        context.facts.update(dataset=dataset.id, versions=[row.id for row in gone])
        return declared.Pruned(versions=tuple(row.number for row in gone), rows=sum(row.rows for row in gone))

    def _unneeded(self, context: Context, dataset: Found, keep: int) -> Iterator[Found]:
        kept = {tag.version for tag in dataset_store.tags_of(context.work, [dataset.id])}
        kept |= pinned(context.work, context.required_project.id, dataset.name)
        living = store.living(context.work, dataset.id)  # newest first
        held = {row.digest for row in living[:keep]}
        for row in reversed(living[keep:]):
            if row.number == dataset.current or row.number in kept:
                continue
            if row.digest in held or not _is_used(context, dataset, row):
                yield row


def _is_used(context: Context, dataset: Found, version: Found) -> bool:
    """Whether anything but a later version came of it. Where a later one has the same content, that one keeps it."""
    node = Node(kind="dataset", id=lineage_id(dataset.name, version.digest))
    own = f"{dataset.name}@"
    nearest = descendants(context.work, context.required_project.id, node, 1).nodes
    return any(found.kind != "dataset" or not found.id.startswith(own) for found in nearest)
