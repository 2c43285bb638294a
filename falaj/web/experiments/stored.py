"""The page of one stored file of a run or a logged model."""

from typing import Any

from falaj.tracking.operations.artifacts import GET_ARTIFACT
from falaj.web.experiments.files import first_bytes, tree
from falaj.web.forms import checked
from falaj.web.previews import READ
from falaj.web.visits import Visit


def beginning(visit: Visit) -> Any:
    """The first bytes of the file that the address names; where it names none, the page shows the list alone."""
    if not (name := visit.path["name"]):
        return None
    return checked(GET_ARTIFACT, {"project": visit.project, "holder": visit.path["holder"], "name": name, "length": READ})


def story(visit: Visit) -> dict[str, Any]:
    name, holder = visit.path["name"], visit.path["holder"]
    entries = [entry for entry in visit.loaded["artifacts"].items if not entry.folder]
    return {
        "name": name,
        "holder": holder,
        "of_model": holder.startswith("m-"),
        "files": tree(entries),
        "size": next((entry.size for entry in entries if entry.name == name), None),
        "digest": next((entry.digest for entry in entries if entry.name == name), ""),
        "shown": first_bytes(visit, name),
    }
