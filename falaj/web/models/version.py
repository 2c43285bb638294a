"""A model version's page: what it is made of, whether it can be trusted and served, and where it came from."""

import json
from typing import Any, Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.lineage.operations import SHOW_GRAPH
from falaj.registry.operations.versions import DIFF_VERSIONS, GET_VERSION_FILE, LIST_VERSION_FILES
from falaj.web.drawing import lineage
from falaj.web.drawing.lineage import Arrow, Box
from falaj.web.experiments.files import first_bytes, tree
from falaj.web.experiments.run import names_of
from falaj.web.forms import checked
from falaj.web.models.model import versions_of
from falaj.web.optimisation import listing
from falaj.web.previews import READ
from falaj.web.serving.fields import percent
from falaj.web.visits import Visit

DEPTH: Final = 6
_KINDS: Final = {
    "dataset": "data",
    "view": "feature view",
    "run": "run",
    "model": "logged model",
    "version": "model version",
    "variant": "variant",
    "endpoint": "endpoint",
}


@value
class Port:
    """One input or output of a model, as its signature says."""

    name: str
    type: str
    required: bool = True


def itself(visit: Visit) -> dict[str, Any]:
    """How operations name the version that the page is about."""
    version = visit.loaded["registered"]
    return {"project": visit.project, "model": version.model, "version": version.version}


def asking(operation: Any) -> Any:
    return lambda visit: checked(operation, itself(visit))


def graph(visit: Visit) -> Any:
    asked = {"kind": "version", "id": visit.loaded["registered"].id, "depth": DEPTH}
    return checked(SHOW_GRAPH, {"project": visit.project, **asked})


def others(visit: Visit) -> Any:
    return versions_of(visit.loaded["registered"].model, visit)


def diff(visit: Visit) -> Any:
    other = visit.query.get("other", "")
    return checked(DIFF_VERSIONS, itself(visit) | {"other": other}) if other else None


def files(visit: Visit) -> Any:
    return checked(LIST_VERSION_FILES, itself(visit))


def drawn(visit: Visit, here: str) -> Markup:
    """The lineage around the node with this id."""
    found = visit.loaded["lineage"]
    if found is None or len(found.nodes) < 2:
        return Markup("")
    passed_over = _not_certified(visit, found)
    boxes = [
        Box(
            id=f"{node.kind} {node.id}",
            kind=_KINDS[node.kind],
            label=node.label or node.id,
            note=node.id.rpartition("@")[2] if node.kind == "dataset" else "",
            link=_address(visit, node),
            here=node.id == here,
        )
        for node in found.nodes
        if node.id not in passed_over
    ]
    arrows = [
        Arrow(source=f"{edge.source.kind} {edge.source.id}", target=f"{edge.target.kind} {edge.target.id}", words=edge.relation)
        for edge in found.edges
        if edge.target.id not in passed_over
    ]
    return lineage.drawing(boxes, arrows, "Lineage, from data on the left to what came of it on the right")


def _not_certified(visit: Visit, found: Any) -> set[str]:
    """Searches leave many variants behind: drawn are those that were certified, and those of which something came."""
    led_on = {edge.source.id for edge in found.edges}
    return {node.id for node in found.nodes if node.kind == "variant" and node.id not in led_on and not _certified(visit, node)}


def _certified(visit: Visit, node: Any) -> bool:
    known = visit.loaded.get("variants")
    return known is not None and any(one.id == node.id and one.state == "certified" for one in known.items)


def _address(visit: Visit, node: Any) -> str:
    """Empty where it has no page: another kind of thing, or an endpoint that is gone."""
    base = f"/projects/{visit.project}"
    places = {"run": "runs", "model": "artifacts", "version": "versions"}
    if node.kind in places:
        return f"{base}/{places[node.kind]}/{node.id}"
    if node.kind == "variant":
        return listing.address_of(visit, node.id)
    name = next((one.name for one in _endpoints(visit) if node.kind == "endpoint" and one.id == node.id), "")
    return f"{base}/endpoints/{name}" if name else ""


def _endpoints(visit: Visit) -> Any:
    found = visit.loaded.get("endpoints")
    return found.items if found is not None else ()


def served_by(visit: Visit) -> list[tuple[Any, Any]]:
    """The endpoints that have a part for this version now, each with that part."""
    id = visit.loaded["registered"].id
    served = []
    for endpoint in _endpoints(visit):
        numbers = {one.number for one in endpoint.revisions if one.version_id == id}
        served += [(endpoint, arm) for arm in endpoint.arms if arm.revision in numbers]
    return served


def ports(text: str) -> list[Port]:
    """Columns or tensors of a signature, JSON as MLflow writes it; what cannot be read is left out."""
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return [_port(item) for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _port(item: dict[str, Any]) -> Port:
    kind = item.get("type") or f"{item.get('dtype', '')} {item.get('shape', '')}"
    return Port(name=str(item.get("name", "")), type=str(kind), required=item.get("required", True) is not False)


def story(visit: Visit) -> dict[str, Any]:
    version = visit.loaded["registered"]
    found, listed = visit.loaded["files"], visit.loaded["others"]
    return {
        "tree_of_files": tree(found.items) if found is not None else None,
        "inputs": ports(version.inputs),
        "outputs": ports(version.outputs),
        "drawing": drawn(visit, version.id),
        "served_by": served_by(visit),
        "endpoint_names": [endpoint.name for endpoint in _endpoints(visit)],
        "percent": percent,
        "other_versions": [each for each in listed.items if each.version != version.version] if listed is not None else [],
        "names": names_of(visit),
        "address": {"model": version.model, "version": version.version},
        "optimised": listing.of_version(visit),
    }


# One file of a version


def beginning(visit: Visit) -> Any:
    asked = {name: visit.path[name] for name in ("model", "version", "name")}
    return checked(GET_VERSION_FILE, {"project": visit.project, "length": READ, **asked}) if asked["name"] else None


def file_story(visit: Visit) -> dict[str, Any]:
    name, found = visit.path["name"], visit.loaded["files"].items
    entry = next((file for file in found if file.name == name), None)
    return {
        "name": name,
        "tree_of_files": tree(found),
        "size": entry.size if entry else None,
        "digest": entry.digest if entry else "",
        "shown": first_bytes(visit, name),
        "address": {"model": visit.path["model"], "version": visit.path["version"]},
    }
