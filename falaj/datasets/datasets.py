"""Datasets as such: names for a line of versions, with tags."""

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.needing import refuse_needed
from falaj.datasets.operations import datasets as declared
from falaj.datasets.operations.words import CURRENT, QUARANTINED
from falaj.datasets.store import datasets as store
from falaj.datasets.views import datasets_shown, required_dataset, required_version
from falaj.storage.errors import ZoneNotAllowed


class DatasetService:
    def __init__(self, letting_go: LettingGo) -> None:
        self._letting_go = letting_go

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_DATASET, self.create),
            bind(declared.LIST_DATASETS, self.list),
            bind(declared.SHOW_DATASET, self.show),
            bind(declared.DESCRIBE_DATASET, self.describe),
            bind(declared.DELETE_DATASET, self.delete),
            bind(declared.TAG_VERSION, self.tag),
            bind(declared.UNTAG_VERSION, self.untag),
        ]

    def create(self, context: Context, request: declared.CreateDataset) -> declared.Dataset:
        if not create(context, request.dataset, request.description, request.zone):
            raise Conflict(f"There is a dataset {request.dataset!r} already; write a version of it instead.")
        return self._shown(context, request.dataset)

    def list(self, context: Context, request: declared.ListDatasets) -> declared.Datasets:
        after = read_text_cursor(request.cursor)
        rows = store.list_after(context.work, context.required_project.id, after, request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.name,))
        return declared.Datasets(items=datasets_shown(context.work, page), next=following)

    def show(self, context: Context, request: declared.OneDataset) -> declared.Dataset:
        return self._shown(context, request.dataset)

    def describe(self, context: Context, request: declared.DescribeDataset) -> declared.Dataset:
        dataset = required_dataset(context, request.dataset, hold=True)
        store.change(context.work, dataset.id, description=request.description, changed=context.now)
        return self._shown(context, request.dataset)

    def delete(self, context: Context, request: declared.DeleteDataset) -> Nothing:
        dataset = required_dataset(context, request.dataset, hold=True)
        if not request.even_if_needed:
            refuse_needed(context, dataset)
        store.change(context.work, dataset.id, deleted=context.now)
        self._letting_go.of_dataset(context, dataset.id)
        context.facts.update(dataset=dataset.id, versions=dataset.last_version)
        return Nothing()

    def tag(self, context: Context, request: declared.TagVersion) -> declared.Dataset:
        if request.tag in (CURRENT, QUARANTINED, "latest", "newest"):
            raise Invalid(f"{request.tag!r} is no tag: it means a version already, or would be taken for the current one.")
        dataset = required_dataset(context, request.dataset, hold=True)
        version = required_version(context, dataset, request.version)
        store.set_tag(context.work, dataset.id, request.tag, version.number)
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        return self._shown(context, request.dataset)

    def untag(self, context: Context, request: declared.UntagVersion) -> Nothing:
        dataset = required_dataset(context, request.dataset, hold=True)
        if not store.remove_tag(context.work, dataset.id, request.tag):
            raise NotFound(f"Dataset {request.dataset!r} has no tag {request.tag!r}.")
        context.facts["dataset"] = dataset.id
        return Nothing()

    def _shown(self, context: Context, name: str) -> declared.Dataset:
        return datasets_shown(context.work, [required_dataset(context, name)])[0]


def create(context: Context, name: str, description: str, zone: str) -> bool:
    """False where there is one of that name."""
    project = context.required_project
    places = [place.zone for place in project.places if zone in ("", place.zone)]
    if not places:
        reason = f"The project {project.name!r} may not store anything in {zone or 'any zone'}."
        raise ZoneNotAllowed(reason, rule="zones-of-project")
    id = new_id(context.now)
    context.facts["dataset"] = id
    return store.add(
        context.work,
        id=id,
        project=project.id,
        name=name,
        description=description,
        zone=places[0],
        by=context.identity.principal,
        now=context.now,
    )
