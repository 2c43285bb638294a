"""Workspaces, which are projects. Clients list and look at them; making and changing them is Falaj's own business."""

from typing import Final, NoReturn

from falaj.api.mlflow.adapters import Document, Visit, perform
from falaj.api.mlflow.bodies import Empty
from falaj.api.mlflow.projects import said_project
from falaj.base.errors import Forbidden
from falaj.governance.projects import operations as ops


def _workspace(project: ops.ProjectView) -> Document:
    return {"name": project.name, "description": project.description}


def _list(visit: Visit, _sent: Empty) -> Document:
    found: list[Document] = []
    cursor = ""
    while True:
        page = visit.call(ops.LIST_PROJECTS, ops.ListProjects(limit=1000, cursor=cursor))
        found += [_workspace(project) for project in page.items]
        cursor = page.next
        if not cursor:
            return {"workspaces": found}


def _show(visit: Visit, _sent: Empty) -> Document:
    project = visit.call(ops.SHOW_PROJECT, ops.OneProject(project=said_project(visit.path[0], "")))
    return {"workspace": _workspace(project)}


def _refuse(_visit: Visit, _sent: Empty) -> NoReturn:
    raise Forbidden(
        "A workspace is a project of Falaj: make and change projects with `falaj project`.", rule="mlflow.workspaces"
    )


_AT: Final = "/api/3.0/mlflow/workspaces"
_REFUSED: Final = perform("mlflow.workspaces", Empty, _refuse)
ROUTES: Final = (
    ("GET", _AT, perform(ops.LIST_PROJECTS.name, Empty, _list)),
    ("GET", f"{_AT}/{{name}}", perform(ops.SHOW_PROJECT.name, Empty, _show)),
    ("POST", _AT, _REFUSED),
    ("PATCH", f"{_AT}/{{name}}", _REFUSED),
    ("DELETE", f"{_AT}/{{name}}", _REFUSED),
)
