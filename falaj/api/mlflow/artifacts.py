"""Artifacts: listed, sent, fetched and deleted. Large ones in parts are `uploads`."""

from typing import Final

from falaj.api.mlflow import logged_models, runs
from falaj.api.mlflow.adapters import Document, Visit, perform
from falaj.api.mlflow.bodies import Empty, body
from falaj.api.mlflow.locations import Held, Snapshot, location_in, location_of, name_of
from falaj.api.mlflow.words import logged_model_of, required, run_of
from falaj.base.errors import Forbidden
from falaj.base.operation import Download
from falaj.registry.operations import versions
from falaj.tracking.operations import artifacts as ops
from falaj.tracking.operations.models import SHOW_LOGGED_MODEL, OneLoggedModel
from falaj.tracking.operations.runs import SHOW_RUN, OneRun


@body
class ListOfRun:
    run_id: str = ""
    run_uuid: str = ""
    path: str = ""


@body
class ListOfModel:
    artifact_directory_path: str = ""


@body
class ListPlace:
    path: str = ""


def _file(path: str, is_folder: bool, size: int) -> Document:
    return {"path": path, "is_dir": True} if is_folder else {"path": path, "is_dir": False, "file_size": size}


def _listed(visit: Visit, holder: str, folder: str) -> list[ops.Entry]:
    found: list[ops.Entry] = []
    cursor = ""
    while True:
        wanted = ops.ListArtifacts(project=visit.project, holder=holder, folder=folder, cursor=cursor)
        page = visit.call(ops.LIST_ARTIFACTS, wanted)
        found += page.items
        cursor = page.next
        if not cursor:
            return found


def _entries(visit: Visit, holder: str, folder: str) -> list[Document]:
    return [_file(entry.name, entry.folder, entry.size) for entry in _listed(visit, holder, folder)]


def _of_run(visit: Visit, sent: ListOfRun) -> Document:
    run = visit.call(SHOW_RUN, OneRun(project=visit.project, run=run_of(sent.run_id or sent.run_uuid)))
    files = _entries(visit, run.info.id, _folder(sent.path))
    return {"root_uri": runs.artifact_root(run.info.experiment, run.info.id), "files": files}


def _of_model(visit: Visit, sent: ListOfModel) -> Document:
    model = visit.call(SHOW_LOGGED_MODEL, OneLoggedModel(project=visit.project, model=logged_model_of(visit.path[0])))
    files = _entries(visit, model.id, _folder(sent.artifact_directory_path))
    return {"root_uri": logged_models.artifact_root(model.experiment, model.id), "files": files}


def _of_place(visit: Visit, sent: ListPlace) -> Document:
    """Names relative to the place that was asked for."""
    place = location_in(required(sent.path, "path"))
    files = _of_version(visit, place) if isinstance(place, Snapshot) else _entries(visit, place.holder, place.name)
    return {"files": [entry | {"path": entry["path"].rpartition("/")[2]} for entry in files]}


def _of_version(visit: Visit, place: Snapshot) -> list[Document]:
    """One level of a version's files, which are known by their whole names."""
    model, version = _named(visit, place)
    above = f"{place.name}/" if place.name else ""
    level: dict[str, Document] = {}
    cursor = ""
    while True:
        wanted = versions.ListVersionFiles(project=visit.project, model=model, version=version, cursor=cursor)
        page = visit.call(versions.LIST_VERSION_FILES, wanted)
        for file in page.items:
            if file.name.startswith(above):
                part, slash, _ = file.name[len(above) :].partition("/")
                level[part] = _file(above + part, bool(slash), file.size)
        cursor = page.next
        if not cursor:
            return list(level.values())


def _named(visit: Visit, place: Snapshot) -> tuple[str, int]:
    found = visit.call(versions.FIND_VERSION, versions.FindVersion(project=visit.project, id=place.version))
    return found.model, found.version


def _download(visit: Visit, _sent: Empty) -> Download:
    place = location_of(visit.path)
    name = required(place.name, "path")
    if isinstance(place, Held):
        wanted = ops.GetArtifact(project=visit.project, holder=place.holder, name=name)
        return visit.call(ops.GET_ARTIFACT, wanted)
    model, version = _named(visit, place)
    file = versions.GetVersionFile(project=visit.project, model=model, version=version, name=name)
    return visit.call(versions.GET_VERSION_FILE, file)


def _upload(visit: Visit, _sent: Empty) -> Document:
    place = writable(location_of(visit.path))
    visit.call(
        ops.PUT_ARTIFACT,
        ops.PutArtifact(project=visit.project, holder=place.holder, name=required(place.name, "path")),
    )
    return {}


def _delete(visit: Visit, _sent: Empty) -> Document:
    place = writable(location_of(visit.path))
    visit.call(ops.DELETE_ARTIFACTS, ops.DeleteArtifacts(project=visit.project, holder=place.holder, name=place.name))
    return {}


def writable(place: Held | Snapshot) -> Held:
    if isinstance(place, Snapshot):
        raise Forbidden("The files of a registered version never change: register another version.", rule="version.immutable")
    return place


def _folder(path: str) -> str:
    return name_of(path.strip("/").split("/")) if path.strip("/") else ""


_AT: Final = "/api/2.0/mlflow-artifacts/artifacts"
ROUTES: Final = (
    ("GET", "/api/2.0/mlflow/artifacts/list", perform(ops.LIST_ARTIFACTS.name, ListOfRun, _of_run)),
    (
        "GET",
        "/api/2.0/mlflow/logged-models/{model}/artifacts/directories",
        perform(ops.LIST_ARTIFACTS.name, ListOfModel, _of_model),
    ),
    ("GET", _AT, perform(ops.LIST_ARTIFACTS.name, ListPlace, _of_place)),
    ("GET", f"{_AT}/{{path*}}", perform(ops.GET_ARTIFACT.name, Empty, _download)),
    ("PUT", f"{_AT}/{{path*}}", perform(ops.PUT_ARTIFACT.name, Empty, _upload, takes_bytes=True)),
    ("DELETE", f"{_AT}/{{path*}}", perform(ops.DELETE_ARTIFACTS.name, Empty, _delete)),
)
