"""Declaring checks, and holding a version against them."""

import dataclasses

from falaj.base.errors import NotFound
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.checking.hiding import READ_OTHERS, refuse_unseen, unseen
from falaj.datasets.checking.rules import refuse_nonsense
from falaj.datasets.checking.running import Checker, Rules, Subject, checks_of, stops, text_of
from falaj.datasets.checking.verdicts import Verdicts, outcomes_of, without
from falaj.datasets.operations import checks as declared
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.parts import Parts
from falaj.datasets.sight import Sight
from falaj.datasets.store import checks as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.views import required_dataset, required_version, schema_of

_Hidden = tuple[tuple[str, ...], frozenset[str]]  # columns that the caller may not see, and checks that read such elsewhere


class CheckService:
    def __init__(self, database: Database, parts: Parts, checker: Checker, verdicts: Verdicts, sight: Sight) -> None:
        self._sight = sight
        self._database = database
        self._parts = parts
        self._checker = checker
        self._verdicts = verdicts

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.SET_CHECKS, self.set),
            bind(declared.SHOW_CHECKS, self.show),
            bind_prepared(declared.CHECK_VERSION, self.check, _told),
            bind(declared.SHOW_FINDINGS, self.findings),
        ]

    def set(self, context: Context, request: declared.SetChecks) -> declared.Checks:
        refuse_nonsense(request.checks)
        dataset = required_dataset(context, request.dataset, hold=True)
        if dataset.current:
            schema = schema_of(required_version(context, dataset, "current"))
            for check in request.checks:
                for column in check.columns:
                    schema.column(column)
        before = checks_of(store.declared(context.work, dataset.id))
        refuse_unseen(context, self._sight, dataset, [check for check in request.checks if check not in before])
        store.declare(context.work, dataset.id, text_of(request.checks), context.now, context.identity.principal)
        context.facts["dataset"] = dataset.id
        return declared.Checks(dataset=dataset.name, checks=request.checks)

    def show(self, context: Context, request: OneDataset) -> declared.Checks:
        dataset = required_dataset(context, request.dataset)
        return declared.Checks(dataset=dataset.name, checks=checks_of(store.declared(context.work, dataset.id)))

    def check(self, context: Context, request: declared.CheckVersion) -> declared.Checked:
        number, subject, rules, hidden = self._database.read(
            lambda work: self._read(dataclasses.replace(context, work=work), request)
        )
        outcomes = without(self._checker.run(subject, rules, context.now, request.examples), *hidden)
        return declared.Checked(
            dataset=request.dataset, version=number, passed=not stops(outcomes), outcomes=outcomes, against=rules.against
        )

    def findings(self, context: Context, request: OneVersion) -> declared.Checked:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version, quarantined_too=True)
        row = store.findings_of(context.work, [version.id]).get(version.id)
        if row is None or not row.evidence:
            raise NotFound(f"Version {version.number} of {dataset.name!r} is not in quarantine: no examples are kept of it.")
        evidence = outcomes_of(self._verdicts.evidence(context, row.evidence))
        # What those checks read that were declared then is not known any more.
        kinds = () if self._sight.sees_everything(context, dataset) else READ_OTHERS
        kept = {one.finding.check for one in evidence if one.finding.kind in kinds}
        outcomes = without(evidence, self._sight.masked(context, dataset), kept)
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        return declared.Checked(dataset=dataset.name, version=version.number, passed=not stops(outcomes), outcomes=outcomes)

    def _read(self, context: Context, request: declared.CheckVersion) -> tuple[int, Subject, Rules, _Hidden]:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version, quarantined_too=True)
        rules = self._checker.rules(context, dataset)
        if not rules.checks:
            raise NotFound(
                f"No checks are declared for {dataset.name!r}: declare some first (`falaj dataset check --set FILE`)."
            )
        parts = self._parts.openable(context, version_store.parts_of(context.work, version))
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        subject = Subject(name=dataset.name, schema=schema_of(version), parts=parts)
        hidden = (self._sight.masked(context, dataset), unseen(context, self._sight, dataset, rules.checks))
        return version.number, subject, rules, hidden


def _told(_: Context, __: object, found: declared.Checked) -> declared.Checked:
    return found
