"""Versions that there are: looking at them, and calling columns otherwise. `restoring` goes back to one."""

from collections.abc import Mapping

from falaj.base.errors import Invalid
from falaj.base.pages import page_of, read_cursor
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.checking.rules import renamed
from falaj.datasets.checking.running import checks_of, text_of
from falaj.datasets.operations import versions as declared
from falaj.datasets.publishing import Draft, Placed, publish, renamed_text
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import derivations as derivation_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import derivation_of, required_dataset, required_version, schema_of, versions_shown
from falaj.tables.schemas import Column, Schema, storable


class VersionService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.SHOW_VERSION, self.show),
            bind(declared.LIST_VERSIONS, self.list),
            bind(declared.RENAME_COLUMNS, self.rename),
        ]

    def show(self, context: Context, request: declared.OneVersion) -> declared.Version:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version, gone_too=True)
        return versions_shown(context.work, dataset, [version])[0]

    def list(self, context: Context, request: declared.ListVersions) -> declared.Versions:
        dataset = required_dataset(context, request.dataset)
        before = int(read_cursor(request.cursor, int)[0]) if request.cursor else dataset.last_version + 1
        rows = store.list_before(context.work, dataset.id, before, request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.number,))
        return declared.Versions(items=versions_shown(context.work, dataset, page), next=following)

    def rename(self, context: Context, request: declared.RenameColumns) -> declared.Version:
        dataset = required_dataset(context, request.dataset, hold=True)
        current = required_version(context, dataset, "current")
        schema, renames = schema_of(current), dict(request.renames)
        if not renames:
            raise Invalid("Say which columns shall be called what.")
        for name in renames:
            schema.column(name)
        columns = (
            Column(name=renames.get(column.name, column.name), type=column.type, nullable=column.nullable)
            for column in schema.columns
        )
        parts = store.parts_of(context.work, current)
        added = [Placed(part=part.id, position=part.position, renamed=renamed_text(part, renames)) for part in parts]
        _rename_elsewhere(context, dataset, renames)
        draft = Draft(mode="rename", schema=storable(Schema(columns=tuple(columns))), removed=None, added=added)
        return publish(context, dataset, draft)


def restored(context: Context, dataset: Found, wanted: Found) -> Draft:
    """A version that equals this one, and is made of the same."""
    parts = store.parts_of(context.work, wanted)
    made = derivation_store.of_versions(context.work, [wanted.id]).get(wanted.id)
    return Draft(
        mode="restore",
        schema=schema_of(wanted),
        removed=None,
        added=[Placed(part=part.id, position=part.position, renamed=part.renamed) for part in parts],
        origin=f"{dataset.name}@{wanted.number}",
        derivation=None if made is None else derivation_of(made),
    )


def _rename_elsewhere(context: Context, dataset: Found, renames: Mapping[str, str]) -> None:
    """In what is declared of columns by their names. Of classes either name counts: earlier versions keep theirs."""
    classified = class_store.classes_of(context.work, dataset.id)
    kinds = {new: classified[old] for old, new in renames.items() if old in classified}
    class_store.change(context.work, dataset.id, kinds)
    if checks := checks_of(check_store.declared(context.work, dataset.id)):
        text = text_of(tuple(renamed(check, renames, dataset.name) for check in checks))
        check_store.declare(context.work, dataset.id, text, context.now, context.identity.principal)
