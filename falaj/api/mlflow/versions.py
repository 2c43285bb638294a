"""Versions of registered models, as MLflow's clients register and ask for them."""

from typing import Annotated, Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, nothing, perform
from falaj.api.mlflow.bodies import body
from falaj.api.mlflow.paging import gathered
from falaj.api.mlflow.sources import Files, Registered, host_shown_the_token, source_of
from falaj.api.mlflow.unserved import refuse_prompt
from falaj.api.mlflow.words import milliseconds, run_or_none, version_of
from falaj.base.errors import Conflict, Invalid
from falaj.base.pages import Cursor
from falaj.base.values import Range
from falaj.registry.operations import versions as ops
from falaj.registry.operations.words import Description, Filter, ModelName, ModelTags, Order, TagKey, TagValue
from falaj.tracking.operations.models import SHOW_LOGGED_MODEL, OneLoggedModel

MOST_LISTED: Final = 200_000


@body
class Create:
    name: ModelName
    source: ops.Source
    run_id: str = ""
    tags: ModelTags = ()
    run_link: str = ""
    description: Description = ""
    model_id: str = ""


@body
class One:
    name: ModelName
    version: str = ""


@body
class Update:
    name: ModelName
    version: str = ""
    description: Description = ""


@body
class Search:
    filter: Filter = ""
    max_results: Annotated[int, Range(least=1, most=MOST_LISTED)] = MOST_LISTED
    order_by: Order = ()
    page_token: Cursor = ""


@body
class SetTag:
    name: ModelName
    version: str = ""
    key: TagKey
    value: TagValue = ""


@body
class DeleteTag:
    name: ModelName
    version: str = ""
    key: TagKey


def artifact_root(id: str) -> str:
    """A version's files have an address of their own: the snapshot, and not what it was taken from."""
    return f"mlflow-artifacts:/models/{id}"


def version(found: ops.Version) -> Document:
    document: Document = {
        "name": found.model,
        "version": str(found.version),
        "creation_timestamp": milliseconds(found.created),
        "last_updated_timestamp": milliseconds(found.changed),
        "user_id": found.created_by,
        "current_stage": found.stage,
        "description": found.description,
        "source": found.source,
        "run_id": found.run,
        "run_link": "",
        "status": "READY",
        "tags": [{"key": tag.key, "value": tag.value} for tag in found.tags],
        "aliases": list(found.aliases),
    }
    return document | ({"model_id": found.logged_model} if found.logged_model else {})


def _version(found: ops.Version) -> Document:
    return {"model_version": version(found)}


def _create(visit: Visit, sent: Create) -> Document:
    refuse_prompt({tag.key: tag.value for tag in sent.tags})
    source = source_of(sent.source, visit.address.partition("//")[2].partition("/")[0])
    run = run_or_none(sent.run_id)
    if isinstance(source, Registered):
        return _version(_copy(visit, sent, source))
    files = source if isinstance(source, Files) else Files(holder="", folder="")
    if files.holder.startswith("m-"):
        run = run or visit.call(SHOW_LOGGED_MODEL, OneLoggedModel(project=visit.project, model=files.holder)).run
    return _version(visit.call(ops.CREATE_VERSION, _creation(visit, sent, files, run)))


def _copy(visit: Visit, sent: Create, source: Registered) -> ops.Version:
    """Registered again from where its files came, provided they are still the same there."""
    wanted = ops.OneVersion(project=visit.project, model=source.model, version=source.version)
    original = visit.call(ops.SHOW_VERSION, wanted)
    files = Files(holder=original.holder, folder=original.folder)
    copy = visit.call(ops.CREATE_VERSION, _creation(visit, sent, files, original.run))
    if copy.digest != original.digest:
        visit.call(ops.DELETE_VERSION, ops.OneVersion(project=visit.project, model=copy.model, version=copy.version))
        raise Conflict(
            f"The files that version {source.version} of {source.model!r} was made of have changed since: "
            "register them where they are."
        )
    return copy


def _creation(visit: Visit, sent: Create, files: Files, run: str) -> ops.CreateVersion:
    return ops.CreateVersion(
        project=visit.project,
        model=sent.name,
        holder=files.holder,
        folder=files.folder,
        source=sent.source,
        run=run,
        description=sent.description,
        tags=sent.tags,
    )


def _one(sent: One, visit: Visit) -> ops.OneVersion:
    return ops.OneVersion(project=visit.project, model=sent.name, version=version_of(sent.version))


def _describe(sent: Update, visit: Visit) -> ops.DescribeVersion:
    return ops.DescribeVersion(
        project=visit.project, model=sent.name, version=version_of(sent.version), description=sent.description
    )


def _tag(sent: SetTag, visit: Visit) -> ops.TagVersion:
    return ops.TagVersion(
        project=visit.project, model=sent.name, version=version_of(sent.version), key=sent.key, value=sent.value
    )


def _untag(sent: DeleteTag, visit: Visit) -> ops.UntagVersion:
    return ops.UntagVersion(project=visit.project, model=sent.name, version=version_of(sent.version), key=sent.key)


def _search(visit: Visit, sent: Search) -> Document:
    found, following = gathered(
        sent.max_results,
        sent.page_token,
        lambda limit, cursor: visit.call(
            ops.SEARCH_VERSIONS,
            ops.SearchVersions(project=visit.project, filter=sent.filter, order=sent.order_by, limit=limit, cursor=cursor),
        ),
    )
    document: Document = {"model_versions": [version(one) for one in found]}
    return document | ({"next_page_token": following} if following else {})


def _download_uri(found: ops.Version) -> Document:
    """Files that are not in Falaj are where the client said; fetching them is between it and that place."""
    if not found.digest and (host := host_shown_the_token(found.source)):
        raise Invalid(
            f"The files of version {found.version} of {found.model!r} are not in Falaj but at {host[:200]!r}, where a client "
            "would send the token it has for Falaj: fetch them by other means."
        )
    return {"artifact_uri": artifact_root(found.id) if found.digest else found.source}


_AT: Final = "/api/2.0/mlflow/model-versions"
ROUTES: Final = (
    ("POST", f"{_AT}/create", perform(ops.CREATE_VERSION.name, Create, _create)),
    ("GET", f"{_AT}/get", adapt(ops.SHOW_VERSION, One, _one, _version)),
    ("GET", f"{_AT}/search", perform(ops.SEARCH_VERSIONS.name, Search, _search)),
    ("GET", f"{_AT}/get-download-uri", adapt(ops.SHOW_VERSION, One, _one, _download_uri)),
    ("PATCH", f"{_AT}/update", adapt(ops.DESCRIBE_VERSION, Update, _describe, _version)),
    ("DELETE", f"{_AT}/delete", adapt(ops.DELETE_VERSION, One, _one, nothing)),
    ("POST", f"{_AT}/set-tag", adapt(ops.TAG_VERSION, SetTag, _tag, nothing)),
    ("DELETE", f"{_AT}/delete-tag", adapt(ops.UNTAG_VERSION, DeleteTag, _untag, nothing)),
)
