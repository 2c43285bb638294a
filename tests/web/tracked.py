"""Runs, files and models for the pages to show, made by the platform's own operations."""

import struct
import zlib
from itertools import count
from pathlib import Path
from typing import Any

from falaj.registry.operations import models, promotions, versions
from falaj.tracking.operations import artifacts, experiments, runs
from falaj.tracking.operations.words import Metric, Param, Tag
from tests.web.conftest import Site

MODELS = Path(__file__).parents[1] / "registry" / "models"
_STARTS = count(1_000_000, 1_000)  # each run is newer than the one before


def experiment(site: Site, name: str = "trees", project: str = "fraud") -> int:
    made = site.call(experiments.CREATE_EXPERIMENT, experiments.CreateExperiment(project=project, name=name))
    return int(made.id)


def run(
    site: Site,
    number: int,
    name: str,
    *,
    params: dict[str, str] | None = None,
    metrics: dict[str, list[float]] | None = None,
    tags: dict[str, str] | None = None,
    ended: bool = True,
    project: str = "fraud",
) -> str:
    """A run with the courses of its metrics; its id."""
    started = next(_STARTS)
    marks = tuple(Tag(key=key, value=value) for key, value in (tags or {}).items())
    made = site.call(
        runs.CREATE_RUN, runs.CreateRun(project=project, experiment=number, name=name, started=started, tags=marks)
    )
    log(site, made.info.id, params=params, metrics=metrics, project=project)
    if ended:
        site.call(runs.UPDATE_RUN, runs.UpdateRun(project=project, run=made.info.id, status="FINISHED", ended=started + 65_000))
    return str(made.info.id)


def log(
    site: Site,
    id: str,
    *,
    params: dict[str, str] | None = None,
    metrics: dict[str, list[float]] | None = None,
    first_step: int = 0,
    project: str = "fraud",
) -> None:
    points = tuple(
        Metric(key=key, value=value, timestamp=1_000 * step, step=step)
        for key, values in (metrics or {}).items()
        for step, value in enumerate(values, first_step)
    )
    pairs = tuple(Param(key=key, value=value) for key, value in (params or {}).items())
    site.call(runs.LOG_TO_RUN, runs.LogToRun(project=project, run=id, metrics=points, params=pairs))


def put(site: Site, holder: str, name: str, content: bytes, project: str = "fraud") -> Any:
    request = artifacts.PutArtifact(project=project, holder=holder, name=name)
    return site.call(artifacts.PUT_ARTIFACT, request, data=content)


def png(width: int = 4, height: int = 4) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + b"\x10\x80\x90" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def register(
    site: Site,
    holder: str,
    name: str = "card-fraud",
    *,
    kind: str = "lightgbm",
    project: str = "fraud",
    token: str | None = None,
) -> Any:
    """A version of a model, of files below `model/` of a run; the model is made where there is none yet."""
    put(site, holder, "model/MLmodel", (MODELS / f"{kind}.MLmodel").read_bytes(), project)
    weights = (MODELS / "model.lgb").read_bytes() if kind == "lightgbm" else b"\x80\x04pickled"
    put(site, holder, f"model/{'model.lgb' if kind == 'lightgbm' else 'model.pkl'}", weights, project)
    if name not in {one.name for one in site.call(models.SEARCH_MODELS, models.SearchModels(project=project)).items}:
        site.call(models.CREATE_MODEL, models.CreateModel(project=project, model=name))
    request = versions.CreateVersion(project=project, model=name, holder=holder, folder="model", run=holder)
    return site.call(versions.CREATE_VERSION, request, token=token)


def promote(site: Site, version: int, name: str = "card-fraud", *, alias: str = "champion", token: str | None = None) -> Any:
    request = promotions.Promote(project="fraud", model=name, alias=alias, version=version)
    return site.call(promotions.PROMOTE, request, token=token)
