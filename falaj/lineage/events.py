"""Runs as OpenLineage events, by its specification 2-0-2: a job is an experiment, and what a run read or made is a dataset.

Models are datasets there too, of the type MODEL; a version counts as made by the run whose model it was registered from.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from falaj import __version__
from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import Context
from falaj.lineage import store
from falaj.lineage.columns import columns_of

SPECIFICATION: Final = "https://openlineage.io/spec"
PRODUCER: Final = f"urn:falaj:{__version__}"
MOST_LINKS: Final = 2000  # of one page's runs together
LONGEST_SCHEMA: Final = 100_000
_TRANSITIONS: Final = {"RUNNING": "RUNNING", "SCHEDULED": "OTHER", "FINISHED": "COMPLETE", "FAILED": "FAIL", "KILLED": "ABORT"}
_DATASETS: Final = ("dataset", "model", "version")


@value
class RunFacts:
    """`experiment` is its name; `ended` is None while the run goes on."""

    experiment: str
    status: str
    ended: Moment | None


class Records(Protocol):
    """What those who made the runs and read the datasets know about them; `tracking` does.

    Looks within the context's project alone, and leaves out what it does not know.
    """

    def runs(self, context: Context, ids: Sequence[str]) -> Mapping[str, RunFacts]: ...

    def schemas(self, context: Context, datasets: Sequence[str], longest: int) -> Mapping[str, str]:
        """By the id of a dataset's node, `name@digest`: the schema as the client sent it, where it has at most this length."""
        ...


class _Neighbours:
    """What stands on both sides of some runs, read in four queries."""

    def __init__(self, context: Context, runs: Collection[str]) -> None:
        work, project = context.work, context.required_project.id
        into = store.edges_into(work, project, runs, MOST_LINKS + 1)
        out_of = store.edges_out_of(work, project, runs, MOST_LINKS + 1)
        self.too_many = len(into) + len(out_of) > MOST_LINKS
        made = {edge.target for edge in out_of}
        beyond = store.edges_out_of(work, project, made, MOST_LINKS) if made else ()
        ends = {edge.source for edge in into} | made | {edge.target for edge in beyond}
        self.nodes = store.nodes_with(work, project, ends) if ends else {}
        self._sources, self._targets = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        self._changed: dict[str, int] = {}
        for edge in into:
            self._sources[edge.target].add(edge.source)
            self._changed[edge.target] = max(edge.at, self._changed.get(edge.target, 0))
        for edge in (*out_of, *beyond):
            self._targets[edge.source].add(edge.target)
            self._changed[edge.source] = max(edge.at, self._changed.get(edge.source, 0))

    def read_by(self, run: str) -> list[Any]:
        return self._of_kinds(self._sources[run], *_DATASETS)

    def made_by(self, run: str) -> list[Any]:
        made = self._of_kinds(self._targets[run], *_DATASETS)
        registered = {end for node in made if node.kind == "model" for end in self._targets[node.key]}
        known = {node.key for node in made}
        return made + [node for node in self._of_kinds(registered, "version") if node.key not in known]

    def last_change(self, run: str) -> Moment:
        return Moment(self._changed[run])

    def _of_kinds(self, keys: Collection[str], *kinds: str) -> list[Any]:
        found = (self.nodes[key] for key in keys)
        return sorted((node for node in found if node.kind in kinds), key=lambda node: (node.at, node.key))


def events_of(context: Context, records: Records, runs: Sequence[Any]) -> tuple[list[dict[str, Any]], int]:
    """The events of these nodes, or of as many of the first of them as make a page; and how many nodes that were."""
    taken = len(runs)
    while (around := _Neighbours(context, [run.key for run in runs[:taken]])).too_many and taken > 1:
        taken //= 2
    known = records.runs(context, [run.id for run in runs[:taken]])
    datasets = [node.id for node in around.nodes.values() if node.kind == "dataset"]
    schemas = records.schemas(context, datasets, LONGEST_SCHEMA) if datasets else {}
    namespace = f"falaj://{context.required_project.name}"
    events = [
        _event(namespace, run, known[run.id], around, schemas)
        for run in runs[:taken]
        if run.id in known  # one that was removed for good since is nobody's job any more
    ]
    return events, taken


def _event(namespace: str, run: Any, facts: RunFacts, around: _Neighbours, schemas: Mapping[str, str]) -> dict[str, Any]:
    return {
        "eventType": _TRANSITIONS.get(facts.status, "OTHER"),
        "eventTime": str(facts.ended or around.last_change(run.key)),
        "producer": PRODUCER,
        "schemaURL": f"{SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(UUID(run.id)), "facets": {}},
        "job": {
            "namespace": namespace,
            "name": facts.experiment,
            "facets": {
                "jobType": _facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="FALAJ", jobType="RUN")
            },
        },
        "inputs": [_dataset(namespace, node, schemas) for node in around.read_by(run.key)],
        "outputs": [_dataset(namespace, node, schemas) for node in around.made_by(run.key)],
    }


def _dataset(namespace: str, node: Any, schemas: Mapping[str, str]) -> dict[str, Any]:
    """A dataset is one thing over all its versions there, so its digest stands in a facet and not in its name."""
    if node.kind != "dataset":
        facets = {"datasetType": _facet("DatasetTypeDatasetFacet", "1-0-1", datasetType="MODEL")}
        if node.label:
            facets["documentation"] = _facet("DocumentationDatasetFacet", "1-1-0", description=node.label)
        return {"namespace": namespace, "name": f"{node.kind}/{node.id}", "facets": facets}
    name, _, digest = node.id.rpartition("@")
    facets = {"version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=digest)}
    if columns := columns_of(schemas.get(node.id, "")):
        fields = [{"name": column.name, "type": column.type} for column in columns]
        facets["schema"] = _facet("SchemaDatasetFacet", "1-2-0", fields=fields)
    return {"namespace": namespace, "name": f"dataset/{name}", "facets": facets}


def _facet(name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{SPECIFICATION}/facets/{version}/{name}.json#/$defs/{name}", **fields}
