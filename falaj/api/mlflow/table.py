"""Which endpoint answers which path: exact paths in one dictionary, the few with open parts in a short list."""

from collections.abc import Iterable
from typing import Final

from falaj.api.mlflow import (
    artifacts,
    experiments,
    logged_models,
    models,
    points,
    promotions,
    runs,
    server,
    unserved,
    uploads,
    versions,
    workspaces,
)
from falaj.api.mlflow.adapters import Endpoint
from falaj.api.mlflow.heads import segments_of
from falaj.base.values import value

Route = tuple[str, str, Endpoint]
ROUTES: Final[tuple[Route, ...]] = (
    *experiments.ROUTES,
    *runs.ROUTES,
    *points.ROUTES,
    *logged_models.ROUTES,
    *models.ROUTES,
    *versions.ROUTES,
    *promotions.ROUTES,
    *artifacts.ROUTES,
    *uploads.ROUTES,
    *workspaces.ROUTES,
    *server.ROUTES,
)


@value
class Found:
    """An endpoint, and the parts of the path that it left open."""

    endpoint: Endpoint
    path: tuple[str, ...] = ()


@value
class Pattern:
    """`{one}` stands for one part of a path, `{rest*}` at the end for all that follow."""

    method: str
    parts: tuple[str, ...]
    endpoint: Endpoint

    def match(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        takes_rest = self.parts[-1].endswith("*}")
        fixed = self.parts[:-1] if takes_rest else self.parts
        if len(parts) < len(fixed) or (len(parts) > len(fixed) and not takes_rest):
            return None
        found = []
        for expected, part in zip(fixed, parts, strict=False):
            if expected.startswith("{"):
                found.append(part)
            elif expected != part:
                return None
        return (*found, *parts[len(fixed) :])


def _patterns(routes: Iterable[Route]) -> tuple[Pattern, ...]:
    return tuple(
        Pattern(method=method, parts=tuple(path.split("/")), endpoint=endpoint)
        for method, path, endpoint in routes
        if path.endswith("}") or "}/" in path
    )


_OPEN: Final = _patterns(ROUTES)
_EXACT: Final = {(method, path): endpoint for method, path, endpoint in ROUTES if "{" not in path}


def find(method: str, path: str, raw: bytes) -> Found:
    """`path` and `raw` are the same, decoded and as it came, from `/api/` or `/ajax-api/` on: MLflow's own console asks the
    same under the latter."""
    if path.startswith("/ajax-api/"):
        path, raw = path.replace("/ajax-api", "/api", 1), raw.replace(b"/ajax-api", b"/api", 1)
    exact = _EXACT.get((method, path))
    if exact is not None:
        return Found(endpoint=exact)
    parts = segments_of(raw)
    for pattern in _OPEN:
        if pattern.method == method and (rest := pattern.match(parts)) is not None:
            return Found(endpoint=pattern.endpoint, path=rest)
    return Found(endpoint=unserved.UNSERVED, path=parts)
