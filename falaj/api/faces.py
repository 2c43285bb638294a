"""The two HTTP faces side by side: one look at the path tells MLflow's clients from everybody else."""

from typing import Any

from starlette.applications import Starlette

from falaj.api.mlflow.face import MlflowFace


class Faces:
    """MLflow's clients first, because theirs are the many small calls; Starlette would try a hundred routes for each."""

    def __init__(self, mlflow: MlflowFace, rest: Starlette) -> None:
        self._mlflow = mlflow
        self.rest = rest
        self.routes = rest.routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_mlflow = scope["type"] == "http" and self._mlflow.serves(scope["path"])
        await (self._mlflow if is_mlflow else self.rest)(scope, receive, send)
