"""Deriving versions on request: by SQL here; what a function made of versions, in a job, is found here and written like any
other rows (`dataset.write`)."""

from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context
from falaj.datasets.deriving.answering import made_before
from falaj.datasets.deriving.functions import derived_by
from falaj.datasets.deriving.inputs import one_zone, refuse_itself
from falaj.datasets.deriving.sql import Asked, Made, SqlDeriver
from falaj.datasets.operations import deriving as declared
from falaj.datasets.operations.derivations import FunctionUsed
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.views import required_dataset, versions_shown


class DeriveService:
    def __init__(self, deriver: SqlDeriver, sight: Sight) -> None:
        self._deriver = deriver
        self._sight = sight

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.DERIVE, self.make, self.publish), bind(declared.FIND_DERIVED, self.find)]

    def make(self, context: Context, request: declared.Derive) -> Made:
        asked = Asked(into=request.dataset, sql=request.sql, inputs=request.inputs, anew=request.anew)
        return self._deriver.made(context, self._deriver.planned(context, asked))

    def publish(self, context: Context, request: declared.Derive, made: Made) -> declared.Derived:
        version, cached = self._deriver.published(context, made, request.description)
        inputs = made.plan.derivation.inputs
        context.facts["inputs"] = [one.version.id for one in made.plan.sources]
        return declared.Derived(version=version, inputs=tuple(one.reference for one in inputs), cached=cached)

    def find(self, context: Context, request: declared.FindDerived) -> declared.FoundDerived:
        used = FunctionUsed(code=request.code, function="function", inputs=request.inputs)
        found, sources = derived_by(context, self._sight, used)
        refuse_itself(sources, request.dataset)
        into = dataset_store.find(context.work, context.required_project.id, request.dataset)
        version = made_before(context, into, found.digest)
        shown = None
        if version is not None:
            shown = versions_shown(context.work, required_dataset(context, request.dataset), [version])[0]
        return declared.FoundDerived(
            inputs=tuple(one.reference for one in found.inputs),
            zone=one_zone(sources, request.dataset, into.zone if into else ""),
            classified=any(one.classes for one in sources),
            version=shown,
        )
