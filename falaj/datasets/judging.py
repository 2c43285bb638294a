"""Making a version that was held against the checks: published, or in quarantine; with what was found of it."""

from falaj.base.errors import Unavailable
from falaj.database.work import Context
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.operations.versions import Version
from falaj.datasets.publishing import Draft, publish, quarantine
from falaj.datasets.store import checks as check_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, versions_shown


def holding(context: Context, dataset: Found, verdict: Verdict | None) -> Verdict | None:
    """The verdict, if it is about what is to be made now, under the checks of now; None where there are no checks."""
    rules = check_store.declared(context.work, dataset.id)
    if not rules:
        return None
    if verdict is None or verdict.rules != rules or verdict.of != dataset.current:
        raise Unavailable(
            f"Another version of {dataset.name!r}, or other checks, came while this one was checked: commit again.", delay=0.1
        )
    return verdict


def publish_judged(context: Context, verdicts: Verdicts, dataset: Found, draft: Draft, verdict: Verdict | None) -> Version:
    """Of a dataset whose row is held, with a verdict that holds."""
    if verdict is None or not verdict.broken:
        return publish(context, dataset, draft)
    version = quarantine(context, dataset, draft) if verdict.stops else publish(context, dataset, draft)
    verdicts.keep(context, dataset.id, version, verdict)
    now = required_dataset(context, dataset.name)
    row = required_version(context, now, str(version.version), gone_too=True)
    return versions_shown(context.work, now, [row])[0]
