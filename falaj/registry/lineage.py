"""What the lineage says about versions."""

from falaj.database.work import Context
from falaj.lineage.graph import Node, ancestors
from falaj.registry.operations.versions import DataVersion
from falaj.registry.verifying import VERSION


def data_behind(context: Context, version: str) -> tuple[DataVersion, ...]:
    """The data that a version came from, by whatever way."""
    walk = ancestors(context.work, context.required_project.id, Node(kind=VERSION, id=version))
    datasets = (node.id.rpartition("@") for node in walk.nodes if node.kind == "dataset")
    return tuple(sorted((DataVersion(name=name, digest=digest) for name, _, digest in datasets), key=_by_name))


def run_behind(context: Context, version: str) -> str:
    """The nearest run that a version came from; empty where none is known."""
    walk = ancestors(context.work, context.required_project.id, Node(kind=VERSION, id=version))
    return next((node.id for node in walk.nodes if node.kind == "run"), "")


def _by_name(data: DataVersion) -> tuple[str, str]:
    return data.name, data.digest
