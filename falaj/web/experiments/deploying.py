"""Deploy, on a run's page: what the run kept becomes a version, and that an endpoint, by the operations that do so anywhere.

Whoever presses again after a refusal gets no second version of the same files.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import Conflict
from falaj.base.operation import Group
from falaj.base.values import value
from falaj.registry.mlmodel import MLMODEL
from falaj.registry.operations.models import CREATE_MODEL
from falaj.registry.operations.versions import CHECK_SERVABLE, CREATE_VERSION, SEARCH_VERSIONS, VersionFile
from falaj.registry.verifying import manifest_digest
from falaj.tracking.operations.artifacts import LIST_ARTIFACTS
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped, checked
from falaj.web.serving.fields import endpoint_name
from falaj.web.visits import Visit

READY: Final = "READY"
EVERYTHING: Final = "all its files"
_FORMATS: Final = (".onnx", ".tflite", ".lgb", ".ubj")
_OF_NO_MEANING: Final = ("", "model", "Default")  # names that nobody chose


@value
class Source:
    """Files that may be a model: those of a logged model, or those below a folder of the run. `version` is the one that was
    registered of them, as they are now; `reasons` say why that can neither be served nor converted, where it cannot."""

    holder: str
    folder: str
    shown: str
    version: Any = None
    reasons: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        return f"{self.holder} {self.folder}"


def may_register(visit: Visit) -> bool:
    """It takes both: to register, and to deploy."""
    return all(visit.standing.may(group, visit.project) for group in (Group.WRITE, Group.DEPLOY))


def verdicts(visit: Visit) -> list[Any]:
    """Why those versions cannot be served that can neither be served nor converted."""
    hopeless = [one.version for one in _sources(visit) if one.version and not _is_served(one.version)]
    asked = ({"project": visit.project, "model": one.model, "version": one.version} for one in hopeless)
    return [checked(CHECK_SERVABLE, one) for one in asked]


def story(visit: Visit) -> dict[str, Any]:
    if not may_register(visit) or visit.loaded["project"].archived or visit.loaded["run"].info.deleted:
        return {"deployable": [], "undeployable": []}
    told = {(one.model, one.version): one.reasons for one in (visit.loaded["verdicts"] or {}).values()}
    found = list(_sources(visit))
    return {
        "deployable": [one for one in found if one.version is None or _is_served(one.version)],
        "undeployable": [
            replace(one, reasons=told.get((one.version.model, one.version.version), ()))
            for one in found
            if one.version is not None and not _is_served(one.version)
        ],
        "proposed": _proposed(visit, found),
    }


def registered(visit: Visit, fields: Fields) -> Fields:
    """Before an endpoint is deployed there has to be a version: the one that was registered of these files, or a new one."""
    said = {name: fields.get(name, [""])[-1].strip() for name in ("source", "model")}
    if not said["model"]:
        raise Mistyped({"model": "Please fill this in."})
    holder, _, folder = said["source"].partition(" ")
    run = visit.path["run"]
    version = _same(visit, run, holder, folder, said["model"])
    if version is None:
        with suppress(Conflict):  # the model is there
            visit.call(CREATE_MODEL, checked(CREATE_MODEL, {"project": visit.project, "model": said["model"]}))
        wanted = {"project": visit.project, "model": said["model"], "holder": holder, "folder": folder, "run": run}
        key = fields.get("_key", [""])[0]
        version = visit.call(CREATE_VERSION, checked(CREATE_VERSION, wanted), key=key and f"{key} version")
    rest = {name: texts for name, texts in fields.items() if name not in said}
    return rest | {"model": [version.model], "version": [str(version.version)]}


def _same(visit: Visit, run: str, holder: str, folder: str, model: str) -> Any:
    """The newest version of the model that is of the same files."""
    quoted = model.replace("'", "''")
    asked = {"project": visit.project, "filter": f"name = '{quoted}' AND run_id = '{run}'"}
    found = visit.call(SEARCH_VERSIONS, checked(SEARCH_VERSIONS, asked)).items
    if not found:
        return None
    digest = _digest(_files(visit, holder, folder), folder)
    return next((one for one in found if one.digest == digest), None)


def _files(visit: Visit, holder: str, folder: str) -> Iterator[Any]:
    asked = checked(LIST_ARTIFACTS, {"project": visit.project, "holder": holder, "folder": folder, "deep": True})
    page = visit.call(LIST_ARTIFACTS, asked)
    yield from page.items
    while page.next:
        page = visit.call(LIST_ARTIFACTS, replace(asked, cursor=page.next))
        yield from page.items


def _digest(files: Iterable[Any], folder: str) -> str:
    """What a version of these files has as its digest."""
    start = f"{folder}/" if folder else ""
    return manifest_digest(
        [
            VersionFile(name=one.name.removeprefix(start), size=one.size, digest=one.digest)
            for one in files
            if not one.folder and one.name.startswith(start)
        ]
    )


def _sources(visit: Visit) -> Iterator[Source]:
    versions = visit.loaded["versions"].items if visit.loaded["versions"] is not None else ()
    for model in (visit.loaded["models"] or {}).values():
        if model.status == READY:
            known = next((one for one in versions if one.holder == model.id and not one.folder), None)
            yield Source(holder=model.id, folder="", shown=model.name, version=known)
    artifacts = visit.loaded["artifacts"]
    entries = [entry for entry in artifacts.items if not entry.folder] if artifacts is not None else []
    run = visit.loaded["run"].info.id
    for folder in _folders(sorted(entry.name for entry in entries)):
        whole = not artifacts.next
        digest = _digest(entries, folder) if whole else ""
        same = [one for one in versions if (one.holder, one.folder) == (run, folder)]
        known = next((one for one in same if one.digest == digest), None)
        yield Source(holder=run, folder=folder, shown=folder or EVERYTHING, version=known)


def _folders(names: list[str]) -> list[str]:
    """Where models lie: where MLflow described one, or a file is of a format that is served. Not those within another."""
    there = set(names)
    found = {
        name.rpartition("/")[0]
        for name in names
        if name.rpartition("/")[2] == MLMODEL
        or name.endswith(_FORMATS)
        or (name.endswith(".xml") and f"{name.removesuffix('.xml')}.bin" in there)
    }
    return sorted(
        one for one in found if not any(one != other and (not other or one.startswith(f"{other}/")) for other in found)
    )


def _is_served(version: Any) -> bool:
    return bool(version.servable or version.convertible)


def _proposed(visit: Visit, found: list[Source]) -> dict[str, str]:
    """What people call it already: the version, the logged model, the experiment, the run."""
    experiment = visit.loaded["experiment"]
    called = [one.version.model for one in found if one.version is not None]
    called += [one.shown.rpartition("/")[2] for one in found if one.shown != EVERYTHING]
    called += [experiment.name if experiment is not None else "", visit.loaded["run"].info.name]
    model = next((name for name in called if name not in _OF_NO_MEANING), "model").replace("/", "-").replace(":", "-")
    return {"model": model, "endpoint": endpoint_name(model)}
