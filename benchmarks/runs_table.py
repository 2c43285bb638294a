"""Thirty thousand runs put straight into the tables of both servers: creating them by requests would take MLflow a quarter of
an hour, and is measured elsewhere."""

import random
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import MetaData, Table, create_engine, func, insert, select

from falaj.governance.projects.store import projects
from falaj.tracking.store.digests import metric_number, scope_of
from falaj.tracking.store.metrics import latest, metrics
from falaj.tracking.store.runs import params, runs, tags

CHUNK = 500
METRICS = ("accuracy", "loss", "auc", "f1")
PARAMS = ("depth", "rate", "seed", "estimators")
STARTED = 1_700_000_000_000


def made_up(count: int) -> Iterator[tuple[int, str, dict[str, float], dict[str, str]]]:
    """The same runs for both: a number, an id, metrics and params."""
    chance = random.Random(7)
    for number in range(count):
        measured = {name: chance.random() for name in METRICS}
        chosen = {name: str(chance.randrange(8)) for name in PARAMS}
        yield number, uuid.UUID(int=chance.getrandbits(128)).hex, measured, chosen


def fill_mlflow(url: str, count: int) -> None:
    engine, known = create_engine(url), MetaData()
    known.reflect(engine, only=["runs", "metrics", "latest_metrics", "params", "tags"])
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in known.tables}
    for number, run, measured, chosen in made_up(count):
        common = {"run_uuid": run}
        rows["runs"].append(
            common
            | {
                "name": f"run-{number}",
                "source_type": "LOCAL",
                "user_id": "noura",
                "status": "FINISHED",
                "lifecycle_stage": "active",
            }
            | {"start_time": STARTED + number, "end_time": STARTED + number + 5, "experiment_id": 0, "artifact_uri": f"/{run}"}
        )
        for name, figure in measured.items():
            point = common | {"key": name, "value": figure, "timestamp": STARTED, "step": 0, "is_nan": False}
            rows["metrics"].append(point)
            rows["latest_metrics"].append(point)
        rows["params"] += [common | {"key": name, "value": text} for name, text in chosen.items()]
        rows["tags"].append(common | {"key": "mlflow.runName", "value": f"run-{number}"})
    with engine.begin() as connection:
        for name in ("runs", "metrics", "latest_metrics", "params", "tags"):
            for first in range(0, len(rows[name]), CHUNK):
                connection.execute(insert(known.tables[name]), rows[name][first : first + CHUNK])
        connection.exec_driver_sql("ANALYZE")  # as Postgres does by itself, a little later
    engine.dispose()


def fill_falaj(url: str, count: int) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        project = connection.scalar(select(projects.c.id).where(projects.c.name == "default"))
        assert project is not None
        taken = connection.scalar(select(func.max(runs.c.number))) or 0
        rows: dict[Table, list[dict[str, Any]]] = {table: [] for table in (runs, metrics, latest, params, tags)}
        for number, run, measured, chosen in made_up(count):
            own = taken + number + 1
            rows[runs].append(
                {"number": own, "id": run, "project": project, "experiment": 0, "name": f"run-{number}", "user": "noura"}
                | {"status": "FINISHED", "started": STARTED + number, "ended": STARTED + number + 5, "deleted": 0}
                | {"created": 0, "created_by": ""}
            )
            for name, figure in measured.items():
                point = {"run": own, "metric": metric_number(name), "step": 0, "at": STARTED, "value": figure, "nan": False}
                rows[metrics].append(point)
                rows[latest].append(point | {"name": name, "experiment": scope_of(project, 0)})
            rows[params] += [{"run": own, "key": name, "value": text} for name, text in chosen.items()]
            rows[tags].append({"run": own, "key": "mlflow.runName", "value": f"run-{number}"})
        for table, filled in rows.items():
            for first in range(0, len(filled), CHUNK):
                connection.execute(insert(table), filled[first : first + CHUNK])
        connection.exec_driver_sql("ANALYZE")
    engine.dispose()
