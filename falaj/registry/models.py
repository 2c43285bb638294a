"""Registered models: names for a line of versions, with tags and a description."""

from typing import Final

from falaj.base.errors import Conflict
from falaj.base.ids import new_id
from falaj.base.pages import cursor_after, read_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.filters import Ordering, Searchable, parse_filter, parse_order
from falaj.database.work import Context
from falaj.registry.operations import models as declared
from falaj.registry.operations.words import ACTIVE_STAGES
from falaj.registry.promotions import PromotionService
from falaj.registry.store import approvals as approval_store
from falaj.registry.store import models as store
from falaj.registry.store import searching
from falaj.registry.store import versions as version_store
from falaj.registry.versions import VersionService
from falaj.registry.views import model_shown, models_shown, required_model

_FILTERED: Final = Searchable(texts=frozenset({"name"}))
_ORDERED: Final = Searchable(
    texts=frozenset({"name"}),
    numbers=frozenset({"creation_timestamp", "last_updated_timestamp"}),
    aliases={"timestamp": "last_updated_timestamp"},
    kinds=frozenset(),
)
_BY_NAME: Final = Ordering(kind="attribute", key="name")


class ModelService:
    """`versions` lets go of the files of what is deleted; `promotions` knows whether aliases may go by another name."""

    def __init__(self, versions: VersionService, promotions: PromotionService) -> None:
        self._versions = versions
        self._promotions = promotions

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_MODEL, self.create),
            bind(declared.SHOW_MODEL, self.show),
            bind(declared.SEARCH_MODELS, self.search),
            bind(declared.DESCRIBE_MODEL, self.describe),
            bind(declared.RENAME_MODEL, self.rename),
            bind(declared.DELETE_MODEL, self.delete),
            bind(declared.TAG_MODEL, self.tag),
            bind(declared.UNTAG_MODEL, self.untag),
        ]

    def create(self, context: Context, request: declared.CreateModel) -> declared.Model:
        id = new_id(context.now)
        made = store.add(
            context.work,
            id=id,
            project=context.required_project.id,
            name=request.model,
            description=request.description,
            by=context.identity.principal,
            now=context.now,
        )
        if not made:
            raise Conflict(f"There is a registered model {request.model!r} already; register a version of it instead.")
        for tag in request.tags:
            store.set_tag(context.work, id, tag.key, tag.value)
        context.facts["model"] = id
        return model_shown(context.work, required_model(context, request.model))

    def show(self, context: Context, request: declared.OneModel) -> declared.Model:
        return model_shown(context.work, required_model(context, request.model))

    def search(self, context: Context, request: declared.SearchModels) -> declared.Models:
        offset = int(read_cursor(request.cursor, int)[0]) if request.cursor else 0
        filters, orders = parse_filter(request.filter, _FILTERED), parse_order(request.order, _ORDERED)
        found = searching.search_models(
            context.work,
            context.required_project.id,
            filters,
            (*orders, _BY_NAME),
            offset=max(offset, 0),
            limit=request.limit + 1,
        )
        page = models_shown(context.work, found[: request.limit])
        return declared.Models(items=page, next=cursor_after(offset + len(page)) if len(found) > len(page) else "")

    def describe(self, context: Context, request: declared.DescribeModel) -> declared.Model:
        model = required_model(context, request.model, hold=True)
        store.update_model(context.work, model.id, description=request.description, changed=context.now)
        return model_shown(context.work, required_model(context, request.model))

    def rename(self, context: Context, request: declared.RenameModel) -> declared.Model:
        model = required_model(context, request.model, hold=True)
        if model.name != request.name:
            if store.name_is_taken(context.work, context.required_project.id, request.name):
                raise Conflict(f"There is a registered model {request.name!r} already.")
            self._promotions.check_renaming(context, model, request.name)
            approval_store.void(context.work, model.id)  # whoever approved a move did so under the name it had
            store.update_model(context.work, model.id, name=request.name, changed=context.now)
        context.facts["model"] = model.id
        return model_shown(context.work, required_model(context, request.name))

    def delete(self, context: Context, request: declared.OneModel) -> Nothing:
        model = required_model(context, request.model, hold=True)
        if pointing := store.aliases_of(context.work, [model.id]):
            named = ", ".join(f"{row.alias} -> {row.version}" for row in pointing)
            raise Conflict(f"Aliases of {request.model!r} point at its versions ({named}); remove them first.")
        if staged := version_store.in_stages(context.work, model.id, ACTIVE_STAGES):
            named = f"version {staged[0].number} is in the stage {staged[0].stage}"
            raise Conflict(f"Versions of {request.model!r} are in use ({named}); move them to another stage first.")
        for version in version_store.ids_left(context.work, model.id):
            self._versions.let_go(context, version)
        approval_store.void(context.work, model.id)
        store.update_model(context.work, model.id, deleted=context.now)
        context.facts["model"] = model.id
        return Nothing()

    def tag(self, context: Context, request: declared.TagModel) -> Nothing:
        store.set_tag(context.work, required_model(context, request.model).id, request.key, request.value)
        return Nothing()

    def untag(self, context: Context, request: declared.UntagModel) -> Nothing:
        """A tag that is not there is no trouble, as clients expect."""
        store.remove_tag(context.work, required_model(context, request.model).id, request.key)
        return Nothing()
