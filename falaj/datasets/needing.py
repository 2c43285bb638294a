"""Who needs a dataset: what was made of its versions, and feature views that read it."""

from typing import Final

from falaj.base.errors import Conflict
from falaj.database.work import Context
from falaj.datasets.features.definitions import views_reading
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import lineage_id
from falaj.lineage.graph import Node, made_of

_NAMED: Final = 5
_WORDS: Final = {"version": "model version"}


def refuse_needed(context: Context, dataset: Found) -> None:
    """Raises `Conflict` that names some of those who need it."""
    if needed := needed_by(context, dataset):
        more = f", and {len(needed) - _NAMED} more" if len(needed) > _NAMED else ""
        raise Conflict(
            f"Dataset {dataset.name!r} is needed: {', '.join(needed[:_NAMED])}{more}. Without it nobody can say again what "
            "they were made of, or make them. Delete it all the same (`--even-if-needed`), or prune its versions instead."
        )


def needed_by(context: Context, dataset: Found) -> list[str]:
    views = [f"feature view {name}" for name in views_reading(context.work, context.required_project.id, dataset.name)]
    return [*views, *(_called(node) for node in _made_of_it(context, dataset))]


def _made_of_it(context: Context, dataset: Found) -> list[Node]:
    """Runs, datasets that are still there, and models of those runs."""
    work, project = context.work, context.required_project.id
    own = [
        Node(kind="dataset", id=lineage_id(dataset.name, row.digest)) for row in version_store.living(context.work, dataset.id)
    ]
    nearest = [node for node in made_of(work, project, own) if not _is_of(node, dataset.name)]
    names = {node.id.partition("@")[0] for node in nearest if node.kind == "dataset"}
    there = {row.name for row in dataset_store.named(work, project, names)} if names else set()
    kept = [node for node in nearest if node.kind != "dataset" or node.id.partition("@")[0] in there]
    models = [node for node in made_of(work, project, kept) if node.kind == "version"]
    return sorted({(node.kind, node.id): node for node in (*models, *kept)}.values(), key=lambda node: node.kind != "version")


def _is_of(node: Node, name: str) -> bool:
    return node.kind == "dataset" and node.id.startswith(f"{name}@")


def _called(node: Node) -> str:
    return f"{_WORDS.get(node.kind, node.kind)} {node.label or node.id}"
