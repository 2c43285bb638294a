"""Going back to a version: it is held against the checks of today, which may be others than it was published under."""

import dataclasses

from falaj.base.errors import Conflict
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.checking.running import Checker, Rules, Subject
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.judging import holding, publish_judged
from falaj.datasets.operations import versions as declared
from falaj.datasets.parts import Parts
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.versions import restored
from falaj.datasets.views import required_dataset, required_version, schema_of


class RestoreService:
    def __init__(self, database: Database, parts: Parts, checker: Checker, verdicts: Verdicts) -> None:
        self._database = database
        self._parts = parts
        self._checker = checker
        self._verdicts = verdicts

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.RESTORE_VERSION, self.prepare, self.restore)]

    def prepare(self, context: Context, request: declared.OneVersion) -> Verdict | None:
        """What the checks find of it; None where none are declared."""
        dataset, subject, rules = self._database.read(lambda work: self._read(dataclasses.replace(context, work=work), request))
        if subject is None:
            return None
        outcomes = self._checker.run(subject, rules, context.now)
        return self._verdicts.made(context.required_project, dataset.zone, dataset.current, rules.text, outcomes)

    def restore(self, context: Context, request: declared.OneVersion, verdict: Verdict | None) -> declared.Version:
        dataset = required_dataset(context, request.dataset, hold=True)
        wanted = _wanted(context, dataset, request.version)
        holds = holding(context, dataset, verdict)
        return publish_judged(context, self._verdicts, dataset, restored(context, dataset, wanted), holds)

    def _read(self, context: Context, request: declared.OneVersion) -> tuple[Found, Subject | None, Rules]:
        dataset = required_dataset(context, request.dataset)
        wanted = _wanted(context, dataset, request.version)
        rules = self._checker.rules(context, dataset)
        if not rules.checks:
            return dataset, None, rules
        parts = self._parts.openable(context, store.parts_of(context.work, wanted))
        return dataset, Subject(name=dataset.name, schema=schema_of(wanted), parts=parts), rules


def _wanted(context: Context, dataset: Found, word: str) -> Found:
    wanted = required_version(context, dataset, word)
    if wanted.number == dataset.current:
        raise Conflict(f"Version {wanted.number} of {dataset.name!r} is the current one.")
    return wanted
