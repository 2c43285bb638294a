"""Features in notebooks and jobs: `falaj.features().get("clicks", [{"user": 7}]).pandas()`."""

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.operation import Operation
from falaj.client.datasets import Dataset, dataset
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.feature_definitions import views_told
from falaj.client.feature_values import Values, heard, told_entities
from falaj.client.http import Client
from falaj.datasets.operations import features as declared

Req = TypeVar("Req")
Res = TypeVar("Res")
Views = list[declared.FeatureView]
When = str | datetime | Moment
_PAGE: Final = 100


def features(*, project: str = "", client: Client | None = None) -> "Features":
    """The feature views of a project. The platform is the client's, or that of FALAJ_URL and FALAJ_TOKEN; the project
    FALAJ_PROJECT's."""
    return Features(project_of_environment(project), client)


class Features:
    """Thread-safe, as far as its client is."""

    def __init__(self, project: str, client: Client | None) -> None:
        self._project, self._client = project, client

    def __repr__(self) -> str:
        return f"<features of project {self._project}>"

    def list(self) -> Views:
        """All views, each in its newest version, with how fresh it is."""
        found: Views = []
        cursor = ""
        while True:
            page = self._call(declared.LIST_VIEWS, declared.ListViews(project=self._project, limit=_PAGE, cursor=cursor))
            found += page.items
            if not (cursor := page.next):
                return found

    def show(self, view: str) -> declared.FeatureView:
        return self._call(declared.SHOW_VIEW, declared.OneView(project=self._project, view=view))

    def apply(self, definition: Mapping[str, Any] | str | Path) -> Views:
        """Define views: a dictionary of one, or of the form of a file with several, or that file, in TOML or YAML. What is
        defined so already stays; anything else is a new version."""
        told = definition if isinstance(definition, Mapping) else _read(Path(definition))
        what = "The definition" if isinstance(definition, Mapping) else str(definition)
        folder = Path() if isinstance(definition, Mapping) else Path(definition).parent
        return [self._call(declared.APPLY_VIEW, view) for view in views_told(told, self._project, what=what, folder=folder)]

    def delete(self, view: str) -> tuple[str, ...]:
        """All versions of a view, or one such as `clicks@2`, with what is kept of it for serving."""
        return self._call(declared.DELETE_VIEW, declared.DeleteView(project=self._project, view=view)).views

    def training_set(
        self,
        labels: str,
        features: str | Sequence[str],
        *,
        time: str,
        into: str = "training",
        description: str = "",
        anew: bool = False,
    ) -> Dataset:
        """Labels with what was known of their entities at the moment in their column `time`, and nothing that became known
        later: a version of the dataset `into`, to be read like any other. The same of the same rows is not made twice, unless
        it shall be made `anew`."""
        request = declared.MakeTrainingSet(
            project=self._project,
            labels=labels,
            time=time,
            features=(features,) if isinstance(features, str) else tuple(features),
            into=into,
            description=description,
            anew=anew,
        )
        made = self._call(declared.MAKE_TRAINING_SET, request).version
        return dataset(f"{made.dataset}@{made.version}", project=self._project, client=self._client)

    def materialise(self, view: str, *, at: When | None = None, whole: bool = False) -> declared.Materialised:
        """Keep what a view knows of every entity, now or at a moment that has passed, for serving."""
        moment = None if at is None else _moment(at)
        request = declared.Materialise(project=self._project, view=view, moment=moment, whole=whole)
        return self._call(declared.MATERIALISE, request)

    def get(self, features: str | Sequence[str], entities: Any) -> Values:
        """What is kept of entities for serving: dictionaries of the columns that tell them apart, or a frame with these
        columns; as many as there are."""
        names, told = (features,) if isinstance(features, str) else tuple(features), told_entities(entities)
        if not told:
            raise Invalid("No entity is asked for.")
        most = declared.MOST_ENTITIES
        pages = [
            self._call(
                declared.GET_FEATURES,
                declared.GetFeatures(project=self._project, features=names, entities=tuple(told[start : start + most])),
            )
            for start in range(0, len(told), most)
        ]
        kinds = [column.type for view in pages[0].views for column in view.columns]
        return Values(
            views=pages[0].views,
            entities=tuple(told),
            rows=tuple(
                tuple(heard(one, kind) for one, kind in zip(row, kinds, strict=True)) for page in pages for row in page.rows
            ),
            events=tuple(events for page in pages for events in page.events),
        )

    def audit(
        self, view: str, *, since: When | None = None, until: When | None = None, limit: int = 10_000
    ) -> declared.FeatureAudit:
        """What was served of a view, held against what it gives offline: every difference, with its likely cause."""
        request = declared.AuditView(
            project=self._project,
            view=view,
            since=None if since is None else _moment(since),
            until=None if until is None else _moment(until),
            limit=limit,
        )
        return self._call(declared.AUDIT_VIEW, request)

    def _call(self, operation: Operation[Req, Res], request: Req) -> Res:
        with nullcontext(self._client) if self._client is not None else client_of_environment() as caller:
            return caller.call(operation, request)


def _read(file: Path) -> Mapping[str, Any]:
    text = file.read_text(encoding="utf-8")
    try:
        told = yaml.safe_load(text) if file.suffix.lower() in (".yaml", ".yml") else tomllib.loads(text)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    if not isinstance(told, dict):
        raise Invalid(f"{file} says nothing: define views in it.")
    return told


def _moment(at: When) -> Moment:
    if isinstance(at, Moment):
        return at
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise Invalid(f"{at} has no time zone: write datetime(..., tzinfo=UTC).")
        at = at.astimezone(UTC).isoformat()
    try:
        return Moment.parse(at)
    except ValueError as error:
        raise Invalid(f"{at!r} is no moment: {error}.") from None
