"""Gates that need no job: the platform looks at what it has. Outside transactions, for bytes are read and rows checked."""

import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from falaj.base.clock import DAY, Moment
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.operations.checks import CHECK_VERSION, Checked, CheckVersion
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as dataset_versions
from falaj.governance.gate import Gatekeeper
from falaj.jobs.store import attempts as attempt_store
from falaj.jobs.store import jobs as job_store
from falaj.jobs.store import metering
from falaj.lifecycle.gates import packages, store
from falaj.lifecycle.gates.packages import EVERY, Hit, Needed
from falaj.lifecycle.gates.training import check_written_by
from falaj.lifecycle.gates.values import Finding, failed
from falaj.lifecycle.operations.gates import Gate
from falaj.optimisation.deployable import Deployable
from falaj.registry.lineage import data_behind
from falaj.registry.operations.versions import DataVersion, OneVersion
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.registry.verifying import VerificationService

_MILLIONTHS: Final = 1_000_000
_NAMED: Final = 3
_SHOWN: Final = 200
Checks: TypeAlias = Callable[[Context, CheckVersion], Checked]
_Known: TypeAlias = tuple[tuple[Needed, ...], dict[str, str], store.Found | None]  # packages, what was told of them, and when


class Looking:
    """Thread-safe. Everything is looked up in the asker's name."""

    def __init__(
        self,
        database: Database,
        gate: Gatekeeper,
        verification: VerificationService,
        deployable: Deployable,
        checks: Checks,
    ) -> None:
        self._database, self._gate = database, gate
        self._verification, self._deployable, self._checks = verification, deployable, checks
        self._kinds: dict[str, Callable[[Context, Gate, Found], Finding]] = {
            "signature": self._signature,
            "certificate": self._certificate,
            "data": self._data,
            "cost": self._cost,
            "licences": self._licences,
            "vulnerabilities": self._vulnerabilities,
        }

    def find(self, context: Context, gate: Gate, version: Found) -> Finding:
        return self._kinds[gate.kind](context, gate, version)

    def _signature(self, context: Context, _: Gate, version: Found) -> Finding:
        request = OneVersion(project=context.required_project.name, model=version.model_name, version=version.number)
        found = self._verification.examine(replace(context, facts={}), request)
        document = {"files": found.files, "bytes": found.size, "key": found.key, "problems": list(found.problems[:_SHOWN])}
        if not found.signed:
            return failed("Nobody signed it: its files are not in Falaj, or its signature does not hold.", **document)
        if not found.ok:
            return failed(" ".join(found.problems[:_NAMED]), **document)
        words = f"The project's key signed its {_count(found.files, 'file')}, and all {found.size:,} bytes are what was signed."
        return Finding(passed=True, words=words, document=document)

    def _certificate(self, context: Context, gate: Gate, version: Found) -> Finding:
        found = self._database.read(lambda work: self._deployable.certified(replace(context, work=work), version))
        told = [
            {
                "variant": one.row.name,
                "certificate": one.certificate,
                "max_drop": float(one.document.get("limits", {}).get("max_drop", 1)),
            }
            for one in found
        ]
        good = [one for one in told if one["max_drop"] <= gate.max_drop]
        if not good:
            return failed(
                f"No variant of it has a certificate that holds and allows at most {gate.max_drop:.2%} to be lost.",
                variants=told,
            )
        words = f"{', '.join(one['variant'] for one in good[:_NAMED])}: certified to lose at most {gate.max_drop:.2%}."
        return Finding(passed=True, words=words, document={"variants": told})

    def _data(self, context: Context, _: Gate, version: Found) -> Finding:
        behind = self._database.read(lambda work: data_behind(replace(context, work=work), version.id))
        if not behind:
            return failed("Nobody knows which data it came from: train it in a run that says what it read.")
        told = [(f"{one.name}@{one.digest[:12]}", self._checked(context, one)) for one in behind]
        document = {"data": [{"dataset": name, "problem": problem} for name, problem in told[:_SHOWN]]}
        if wrong := [f"{name} {problem}" for name, problem in told if problem]:
            return failed("; ".join(wrong[:_NAMED]) + ".", **document)
        named = ", ".join(name for name, _ in told[:_NAMED])
        words = f"The checks of {_count(len(told), 'dataset')} that it came from hold: {named}."
        return Finding(passed=True, words=words, document=document)

    def _checked(self, context: Context, data: DataVersion) -> str:
        """What is wrong with it; empty where nothing is."""

        def look(work: UnitOfWork) -> tuple[int, str]:
            dataset = dataset_store.find(work, context.required_project.id, data.name)
            if dataset is None:
                return 0, "is no dataset of this project"
            there = [row for row in dataset_versions.living(work, dataset.id) if row.digest.startswith(data.digest)]
            if not there:
                return 0, "is in quarantine, or gone, and cannot be looked at"
            own = next((row for row in there if row.mode != "release"), None)
            if own is None:
                return 0, "was released in spite of what its checks found"
            return int(own.number), "" if check_store.declared(work, dataset.id) else "has no checks"

        number, problem = self._database.read(look)
        if problem:
            return problem
        request = CheckVersion(project=context.required_project.name, dataset=data.name, version=str(number), examples=0)
        self._database.read(lambda work: self._gate.authorise(work, context.identity, CHECK_VERSION, request))
        checked = self._checks(replace(context, facts={}), request)
        broken = [one.finding.check for one in checked.outcomes if one.broken]
        return "" if checked.passed else f"breaks {', '.join(broken[:_NAMED])}"

    def _cost(self, context: Context, gate: Gate, version: Found) -> Finding:
        def look(work: UnitOfWork) -> tuple[Sequence[str], int, bool]:
            project = context.required_project.id
            ids = job_store.of_run(work, project, version.run) if version.run else ()
            if ids:
                check_written_by(work, version, ids)
            spent, live = 0, False
            for row in job_store.with_ids(work, ids):
                tries = [one.id for one in attempt_store.of_job(work, project, row.id)]
                spent += sum(one.cost for one in metering.of_job(work, project, row.id, tries))
                live = live or row.ended is None
            return ids, spent, live

        ids, spent, live = self._database.read(look)
        cost = spent / _MILLIONTHS
        document = {"jobs": list(ids[:_SHOWN]), "cost": cost, "budget": gate.budget}
        if not ids:
            return failed("Nobody knows what it cost: no job trained it.", **document)
        if live:
            return failed("The job that trains it is not over.", **document)
        if cost > gate.budget:
            return failed(f"Training it cost {cost:.2f}, and {gate.budget:g} is the budget.", **document)
        return Finding(passed=True, words=f"Training it cost {cost:.2f} of {gate.budget:g}.", document=document)

    # What it needs

    def _licences(self, context: Context, gate: Gate, version: Found) -> Finding:
        needed, told, _ = self._known(context, version, store.LICENCE)
        installed = {one: _installed_licences(one) for one in needed}
        hits = packages.unlicensed(needed, told, installed, gate.licences)
        return _of_packages(needed, hits, "has a licence that is allowed", {"allowed": list(gate.licences)})

    def _vulnerabilities(self, context: Context, gate: Gate, version: Found) -> Finding:
        needed, told, row = self._known(context, version, store.ADVISORY)
        if row is None:
            return failed("Nobody told which vulnerabilities are known: an operator gives a file by `falaj gate advisories`.")
        document = {"advisories": row.digest, "told": str(Moment(row.at)), "ignored": list(gate.ignore)}
        if context.now - row.at > gate.days * DAY:
            age = (context.now - row.at) // DAY
            return failed(f"What is known of vulnerabilities is {age} days old, and {gate.days} are allowed.", **document)
        hits = packages.vulnerable(needed, told, gate.ignore)
        return _of_packages(needed, hits, "is free of known vulnerabilities", document)

    def _known(self, context: Context, version: Found, about: str) -> _Known:
        def look(work: UnitOfWork) -> _Known:
            project = context.required_project.id
            needed = packages.needed(version_store.documents_of(work, version.id).sbom)
            names = {one.name for one in needed} | {EVERY}
            return needed, store.told_of(work, project, about, names), store.known_list(work, project, about)

        return self._database.read(look)


def _of_packages(needed: Sequence[Needed], hits: Sequence[Hit], what: str, document: dict[str, object]) -> Finding:
    told = {**document, "packages": len(needed), "found": [{"package": one.package, "why": one.why} for one in hits[:_SHOWN]]}
    if not needed:
        return failed("Its bill of materials names no package: log the model with its requirements.", **told)
    if hits:
        named = ", ".join(f"{one.package} ({one.why})" for one in hits[:_NAMED])
        more = f" and {len(hits) - _NAMED} more" if len(hits) > _NAMED else ""
        return failed(f"It is not shown of every package that it {what}: {named}{more}.", **told)
    return Finding(passed=True, words=f"Each of {_count(len(needed), 'package')} {what}.", document=told)


def _installed_licences(one: Needed) -> tuple[str, ...]:
    """As the package says itself, where this very version is installed beside the platform."""
    try:
        metadata = importlib.metadata.metadata(one.name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ()
    if metadata["Version"] != one.version:
        return ()
    if expression := (metadata.get_all("License-Expression") or [""])[0]:
        return (expression,)
    classified = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if text.startswith("License ::")]
    said = (metadata.get_all("License") or [""])[0].strip()
    return tuple(classified) or ((said,) if said and len(said) < 100 else ())


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'' if many == 1 else 's'}"
