"""An MLflow by its database alone, SQLite or Postgres, of versions 2 and 3: what is there is found out, nothing is written."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, MetaData, Row, Select, Table, create_engine, func, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError

from falaj.base.errors import Invalid, Unavailable
from falaj.cli.importing.files import LocalArtifacts
from falaj.cli.importing.records import Experiment, File, LoggedModel, Registered, Run, Version
from falaj.tracking.operations.models import ModelMetric, ModelStatus
from falaj.tracking.operations.runs import Dataset, DatasetInput
from falaj.tracking.operations.words import Metric, Param, Tag

AT_ONCE = 500
NEEDED = ("experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics")
OPTIONAL = (
    "datasets", "inputs", "input_tags", "logged_models", "logged_model_params", "logged_model_tags", "logged_model_metrics",
    "registered_models", "registered_model_tags", "registered_model_aliases", "model_versions", "model_version_tags",
)  # fmt: skip
STATUSES: dict[int, ModelStatus] = {1: "PENDING", 2: "READY", 3: "UPLOAD_FAILED"}
DELETED_VERSION = "Deleted_Internal"
PROMPT_TAG = "mlflow.prompt.is_prompt"  # prompts stand among the registered models and are none


class DatabaseSource:
    """Artifacts are read from this machine's disk, below `artifacts`; beside a SQLite file where that is left out.

    With `files` false none are read.
    """

    def __init__(self, uri: str, *, artifacts: Path | None = None, workspace: str = "", files: bool = True) -> None:
        if artifacts is not None and not artifacts.expanduser().is_dir():
            raise Invalid(f"There is no directory {artifacts}: --artifacts names the one that MLflow's artifacts lie below.")
        self._engine, beside, place = _opened(uri)
        self.label = f"{place} {workspace}".rstrip()
        self.artifacts = LocalArtifacts((artifacts or beside) if files else None)
        with self._reading() as connection:
            present = set(inspect(connection).get_table_names())
            if missing := set(NEEDED) - present:
                raise Invalid(f"This is no database of an MLflow: it has no {', '.join(sorted(missing))}.")
            found = MetaData()
            found.reflect(connection, only=sorted(present & {*NEEDED, *OPTIONAL}))
            self._tables = dict(found.tables)
            self._workspace = self._chosen_workspace(connection, workspace)

    def close(self) -> None:
        self._engine.dispose()

    def totals(self, wanted: Collection[str]) -> dict[str, int]:
        runs, metrics, models = (self._tables.get(name) for name in ("runs", "metrics", "logged_models"))
        chosen = self._chosen_experiments(wanted)
        asked = {}
        if runs is not None and metrics is not None:
            mine = select(runs.c.run_uuid).where(runs.c.experiment_id.in_(chosen))
            asked["runs"] = select(func.count()).select_from(runs).where(runs.c.experiment_id.in_(chosen))
            asked["metric points"] = select(func.count()).select_from(metrics).where(metrics.c.run_uuid.in_(mine))
        if models is not None:
            kept = (models.c.experiment_id.in_(chosen), models.c.lifecycle_stage != "deleted")
            asked["logged models"] = select(func.count()).select_from(models).where(*kept)
        with self._reading() as connection:
            return {kind: connection.execute(query).scalar_one() for kind, query in asked.items()}

    def places(self) -> Iterator[str]:
        """Where the artifacts of all runs and logged models lie."""
        chosen = self._chosen_experiments(())
        for name, column in (("runs", "artifact_uri"), ("logged_models", "artifact_location")):
            if (table := self._tables.get(name)) is not None:
                query = select(table.c[column]).where(table.c.experiment_id.in_(chosen), table.c[column].is_not(None))
                with self._reading() as connection:
                    yield from connection.execution_options(yield_per=10 * AT_ONCE).scalars(query)

    def experiments(self) -> Iterator[Experiment]:
        table = self._tables["experiments"]
        with self._reading() as connection:
            rows = connection.execute(self._mine(table, select(table)).order_by(table.c.experiment_id)).all()
            tags = _grouped(connection, self._tables["experiment_tags"], "experiment_id", [row.experiment_id for row in rows])
        for row in rows:
            yield Experiment(
                id=str(row.experiment_id),
                name=row.name,
                deleted=row.lifecycle_stage == "deleted",
                tags=tuple(Tag(key=tag.key, value=tag.value or "") for tag in tags[row.experiment_id]),
            )

    def runs(self, experiment: str) -> Iterator[Run]:
        table, after = self._tables["runs"], ""
        page = select(table).where(table.c.experiment_id == int(experiment)).order_by(table.c.run_uuid).limit(AT_ONCE)
        while True:
            with self._reading() as connection:
                rows = connection.execute(page.where(table.c.run_uuid > after)).all()
                found = self._whole(connection, rows)
            yield from found
            if len(rows) < AT_ONCE:
                return
            after = rows[-1].run_uuid

    def points(self, run: Run) -> Iterator[Metric]:
        table = self._tables["metrics"]
        ordered = select(table).where(table.c.run_uuid == run.id).order_by(table.c.key, table.c.step, table.c.timestamp)
        with self._reading() as connection:
            for row in connection.execution_options(yield_per=10 * AT_ONCE).execute(ordered):
                yield _metric(row)

    def logged_models(self, experiment: str) -> Iterator[LoggedModel]:
        if "logged_models" not in self._tables:
            return
        table, after = self._tables["logged_models"], ""
        page = select(table).where(table.c.experiment_id == int(experiment), table.c.lifecycle_stage != "deleted")
        while True:
            with self._reading() as connection:
                rows = connection.execute(page.where(table.c.model_id > after).order_by(table.c.model_id).limit(AT_ONCE)).all()
                found = self._whole_models(connection, rows)
            yield from found
            if len(rows) < AT_ONCE:
                return
            after = rows[-1].model_id

    def registered(self) -> Iterator[Registered]:
        if "registered_models" not in self._tables:
            return
        with self._reading() as connection:
            models = self._all(connection, "registered_models")
            tags = self._by_name(connection, "registered_model_tags")
            aliases = self._by_name(connection, "registered_model_aliases")
            versions = self._by_name(connection, "model_versions")
            version_tags = self._by_name(connection, "model_version_tags")
        for row in sorted(models, key=lambda model: str(model.name)):
            if any(tag.key == PROMPT_TAG and tag.value == "true" for tag in tags[row.name]):
                continue
            yield Registered(
                name=row.name,
                description=row.description or "",
                tags=tuple(Tag(key=tag.key, value=tag.value or "") for tag in tags[row.name]),
                aliases=tuple((alias.alias, int(alias.version)) for alias in aliases[row.name]),
                versions=tuple(
                    _version(one, [tag for tag in version_tags[row.name] if tag.version == one.version])
                    for one in sorted(versions[row.name], key=lambda version: int(version.version))
                    if one.current_stage != DELETED_VERSION
                ),
            )

    def files(self, holder: Run | LoggedModel) -> Iterator[File]:
        return self.artifacts.files(holder.place)

    def opened(self, holder: Run | LoggedModel, file: File) -> AbstractContextManager[Iterator[bytes]]:
        return self.artifacts.opened(holder.place, file.name)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise Unavailable(f"MLflow's database cannot be read: {error.orig}.") from None

    def _chosen_workspace(self, connection: Connection, wanted: str) -> str:
        """The workspace that is meant; before MLflow 3.10 there were none."""
        column = self._tables["experiments"].c.get("workspace")
        if column is None:
            return ""
        known = sorted(connection.scalars(select(column).distinct()))
        if wanted and wanted not in known:
            raise Invalid(f"This MLflow has no workspace {wanted!r}; it has {', '.join(known)}.")
        if not wanted and len(known) > 1:
            raise Invalid(f"This MLflow has several workspaces ({', '.join(known)}): say which with --workspace.")
        return wanted or (known[0] if known else "")

    def _chosen_experiments(self, wanted: Collection[str]) -> Select[Any]:
        """Their ids."""
        table = self._tables["experiments"]
        mine = self._mine(table, select(table.c.experiment_id))
        return mine.where(table.c.name.in_(wanted)) if wanted else mine

    def _mine(self, table: Table, query: Select[Any]) -> Select[Any]:
        column = table.c.get("workspace")
        return query if column is None else query.where(column == self._workspace)

    def _all(self, connection: Connection, name: str) -> Sequence[Row[Any]]:
        table = self._tables.get(name)
        return [] if table is None else connection.execute(self._mine(table, select(table))).all()

    def _by_name(self, connection: Connection, table: str) -> dict[str, list[Row[Any]]]:
        return _sorted_by(self._all(connection, table), "name")

    def _whole(self, connection: Connection, rows: Sequence[Row[Any]]) -> list[Run]:
        ids = [row.run_uuid for row in rows]
        tags, params, latest = (
            _grouped(connection, self._tables[name], "run_uuid", ids) for name in ("tags", "params", "latest_metrics")
        )
        datasets, used, outputs = self._inputs(connection, ids)
        return [
            Run(
                id=row.run_uuid,
                experiment=str(row.experiment_id),
                name=row.name or next((tag.value for tag in tags[row.run_uuid] if tag.key == "mlflow.runName"), ""),
                user=row.user_id or "",
                status=row.status or "FINISHED",
                started=row.start_time or 0,
                ended=row.end_time,
                deleted=row.lifecycle_stage == "deleted",
                params=tuple(Param(key=one.key, value=one.value) for one in params[row.run_uuid]),
                tags=tuple(Tag(key=one.key, value=one.value or "") for one in tags[row.run_uuid]),
                latest=tuple(_metric(one) for one in latest[row.run_uuid]),
                datasets=tuple(datasets[row.run_uuid]),
                models_used=tuple(used[row.run_uuid]),
                models_made=tuple(outputs[row.run_uuid]),
                place=row.artifact_uri or "",
            )
            for row in rows
        ]

    def _inputs(
        self, connection: Connection, runs: list[str]
    ) -> tuple[dict[str, list[DatasetInput]], dict[str, list[str]], dict[str, list[tuple[str, int]]]]:
        """By run: the data, the models used, the models made."""
        datasets: dict[str, list[DatasetInput]] = defaultdict(list)
        used: dict[str, list[str]] = defaultdict(list)
        outputs: dict[str, list[tuple[str, int]]] = defaultdict(list)
        if "inputs" not in self._tables:
            return datasets, used, outputs
        into = _grouped(connection, self._tables["inputs"], "destination_id", runs)
        out_of = _grouped(connection, self._tables["inputs"], "source_id", runs)
        links = [link for found in into.values() for link in found if link.source_type == "DATASET"]
        data = _grouped(connection, self._tables["datasets"], "dataset_uuid", [link.source_id for link in links])
        tags = _grouped(connection, self._tables["input_tags"], "input_uuid", [link.input_uuid for link in links])
        for link in links:
            for row in data[link.source_id]:
                labels = tuple(Tag(key=tag.name, value=tag.value) for tag in tags[link.input_uuid])
                datasets[link.destination_id].append(DatasetInput(dataset=_dataset(row), tags=labels))
        for link in (link for found in out_of.values() for link in found):
            if link.source_type == "RUN_INPUT":
                used[link.source_id].append(link.destination_id)
            elif link.source_type == "RUN_OUTPUT":
                outputs[link.source_id].append((link.destination_id, int(getattr(link, "step", 0) or 0)))
        return datasets, used, outputs

    def _whole_models(self, connection: Connection, rows: Sequence[Row[Any]]) -> list[LoggedModel]:
        ids = [row.model_id for row in rows]
        tags, params, metrics = (
            _grouped(connection, self._tables[f"logged_model_{name}"], "model_id", ids)
            for name in ("tags", "params", "metrics")
        )
        return [
            LoggedModel(
                id=row.model_id,
                experiment=str(row.experiment_id),
                name=row.name,
                kind=row.model_type or "",
                run=row.source_run_id or "",
                status=STATUSES.get(row.status, "PENDING"),
                params=tuple(Param(key=one.param_key, value=one.param_value) for one in params[row.model_id]),
                tags=tuple(Tag(key=one.tag_key, value=one.tag_value) for one in tags[row.model_id]),
                metrics=tuple(_model_metric(one) for one in metrics[row.model_id]),
                place=row.artifact_location,
            )
            for row in rows
        ]


def _opened(uri: str) -> tuple[Engine, Path | None, str]:
    """An engine that only reads, the directory a SQLite file lies in, and what to call it."""
    try:
        url = make_url(uri)
    except ArgumentError:
        raise Invalid(
            f"{uri!r} is no address of an MLflow: write http://HOST:5000, sqlite:///FILE or postgresql://..."
        ) from None
    kind = url.drivername.split("+")[0]
    if kind == "sqlite" and url.database:
        file = Path(url.database).expanduser().resolve()
        if not file.is_file():
            raise Invalid(f"There is no file {file}.")
        return create_engine(f"sqlite:///file:{quote(str(file))}?mode=ro&uri=true"), file.parent, f"sqlite:///{file}"
    if kind in ("postgresql", "postgres"):
        port = f":{url.port}" if url.port else ""
        return _postgres(url), None, f"postgresql://{url.host or ''}{port}/{url.database or ''}"
    raise Invalid(
        f"A database of the kind {kind!r} cannot be read from here: start `mlflow server` on it and import from its address."
    )


def _postgres(url: URL) -> Engine:
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"), execution_options={"postgresql_readonly": True}, pool_pre_ping=True
        )
    except ModuleNotFoundError:
        raise Invalid("Reading a Postgres needs its driver: pip install 'falaj[postgres]'") from None


def _grouped(connection: Connection, table: Table, column: str, keys: Sequence[Any]) -> dict[Any, list[Row[Any]]]:
    """The rows that have one of these keys in a column, by key."""
    rows: list[Row[Any]] = []
    for first in range(0, len(keys), AT_ONCE):
        rows += connection.execute(select(table).where(table.c[column].in_(keys[first : first + AT_ONCE]))).all()
    return _sorted_by(rows, column)


def _sorted_by(rows: Sequence[Row[Any]], column: str) -> dict[Any, list[Row[Any]]]:
    found: dict[Any, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        found[getattr(row, column)].append(row)
    return found


def _metric(row: Row[Any]) -> Metric:
    return Metric(key=row.key, value=float("nan") if row.is_nan else row.value, timestamp=row.timestamp, step=row.step)


def _model_metric(row: Row[Any]) -> ModelMetric:
    metric = Metric(
        key=row.metric_name,
        value=float("nan") if row.metric_value is None else row.metric_value,
        timestamp=row.metric_timestamp_ms,
        step=row.metric_step,
    )
    return ModelMetric(
        metric=metric, run=row.run_id, dataset_name=row.dataset_name or "", dataset_digest=row.dataset_digest or ""
    )


def _dataset(row: Row[Any]) -> Dataset:
    return Dataset(
        name=row.name,
        digest=row.digest,
        source_type=row.dataset_source_type,
        source=row.dataset_source,
        schema=row.dataset_schema or "",
        profile=row.dataset_profile or "",
    )


def _version(row: Row[Any], tags: Sequence[Row[Any]]) -> Version:
    return Version(
        version=int(row.version),
        description=row.description or "",
        source=row.source or "",
        place=getattr(row, "storage_location", "") or "",
        run=row.run_id or "",
        stage=row.current_stage or "None",
        tags=tuple(Tag(key=tag.key, value=tag.value or "") for tag in tags),
    )
