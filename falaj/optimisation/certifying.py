"""Judging a variant, writing down what was decided and from what, signing it; later, holding that against what is there."""

import json
from typing import Any

from falaj.base.values import value
from falaj.database.work import Context
from falaj.operations.messages import adapter
from falaj.optimisation import certificates
from falaj.optimisation.certificates import FORMAT, Examined
from falaj.optimisation.judging import Verdict, harder, judge, surer
from falaj.optimisation.operations.optimisations import Limits, PlanOptimisation
from falaj.optimisation.operations.variants import CertifyVariant
from falaj.optimisation.operations.words import Host
from falaj.optimisation.store import variants as store
from falaj.optimisation.store.tables import Found
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.store import models


@value
class Served:
    """A variant as it may be deployed. `problem` says why it has no valid certificate."""

    row: Found
    files: tuple[Found, ...]
    made: dict[str, Any]
    document: dict[str, Any]
    certificate: str
    problem: str

    @property
    def times(self) -> float:
        """So many times as many rows as the original's: as it was signed, where it was."""
        signed = self.document.get("latency", {}).get("variant", {}).get("times")
        return float(signed if signed is not None else json.loads(self.row.measures)["times"])


class Certifier:
    """Thread-safe."""

    def __init__(self, signers: ProjectSigners) -> None:
        self._signers = signers

    def certify(
        self, context: Context, optimisation: Found, row: Found, version: Found, evidence: CertifyVariant
    ) -> tuple[str, str]:
        """The state it has from now on, and why where it was refused. A refusal is signed and kept as well."""
        asked: PlanOptimisation = adapter(PlanOptimisation).validate_json(optimisation.request)
        found = json.loads(optimisation.found)
        # Two searches of one version, judging at once, would each count without the other.
        models.hold_by_id(context.work, row.project, version.model)
        before, refused = store.judged_on(context.work, optimisation.version_id, optimisation.held_out)
        verdict = judge(evidence, found.get("task", "classes"), asked.limits, refused)
        files = {one.name: one.digest for one in store.files_of(context.work, [row.id]).get(row.id, ())}
        document = self._document(context, optimisation, row, version, evidence, verdict, asked)
        sure = surer(asked.limits.confidence, harder(refused))
        document |= {"judged_before": before, "refused_before": refused, "sure": f"{sure:.6g}"}
        signer = self._signers.prepare(context.work, context.required_project.id, context.now)
        issued = certificates.issue(document, files, signer)
        store.certify(
            context.work,
            {
                "variant": row.id,
                "project": row.project,
                "version_id": row.version_id,
                "held_out": optimisation.held_out,
                "fit": verdict.fit,
                "reasons": json.dumps(list(verdict.reasons)),
                "task": found.get("task", "classes"),
                "bundle": issued.bundle,
                "digest": issued.digest,
                "issued": context.now,
            },
        )
        context.facts.update(variant=row.id, certificate=issued.digest, fit=verdict.fit, version=row.version_id)
        return ("certified", "") if verdict.fit else ("refused", " ".join(verdict.reasons))

    def examine(self, context: Context, row: Found, kept: Found, version: Found) -> Examined:
        files = {one.name: one.digest for one in store.files_of(context.work, [row.id]).get(row.id, ())}
        made = json.loads(row.made)
        return certificates.examine(
            kept.bundle,
            variant={"id": row.id, **{name: made.get(name) for name in ("runtime", "file", "settings")}},
            fit=kept.fit,
            files=files,
            version=version.id,
            version_digest=version.digest,
            keys=self._signers.public_keys(context.work, row.project),
        )

    def served(self, context: Context, row: Found, version: Found) -> Served:
        """A variant that was made, with what its certificate is worth now."""
        kept = store.certificate_of(context.work, row.id)
        files = tuple(store.files_of(context.work, [row.id]).get(row.id, ()))
        if kept is None:
            problem, document = "It was never certified.", dict[str, Any]()
        else:
            examined = self.examine(context, row, kept, version)
            document = examined.document
            problem = " ".join(examined.problems if kept.fit else (*json.loads(kept.reasons), *examined.problems))
        return Served(
            row=row,
            files=files,
            made=json.loads(row.made),
            document=document,
            certificate=kept.digest if kept is not None and kept.fit and not problem else "",
            problem=problem,
        )

    def _document(
        self,
        context: Context,
        optimisation: Found,
        row: Found,
        version: Found,
        evidence: CertifyVariant,
        verdict: Verdict,
        asked: PlanOptimisation,
    ) -> dict[str, Any]:
        pinned, found, made = json.loads(optimisation.pinned), json.loads(optimisation.found), json.loads(row.made)
        files = store.files_of(context.work, [row.id]).get(row.id, ())
        data = {name: {key: pinned[name][key] for key in ("dataset", "version", "digest")} for name in ("on", "held_out")}
        learnt, compared, held_out = found.get("rows", (0, 0, 0))
        return {
            "format": FORMAT,
            "issued": str(context.now),
            "project": context.required_project.name,
            "optimisation": optimisation.id,
            "job": evidence.job,
            "model": {
                "name": optimisation.model_name,
                "version": optimisation.version,
                "version_id": optimisation.version_id,
                "digest": version.digest,
                "runtime": pinned["runtime"],
                "converted": pinned["converted"],
                "files": {one["name"]: one["digest"] for one in pinned["files"]},
            },
            "variant": {
                "id": row.id,
                "name": row.name,
                "steps": json.loads(row.steps),
                "notes": made.get("notes", []),
                "runtime": made["runtime"],
                "file": made["file"],
                "settings": made["settings"],
                "files": {one.name: one.digest for one in files},
                "student": {"of": pinned["student_of"], "files": {one["name"]: one["digest"] for one in pinned["student"]}},
            },
            "data": {
                "learnt_from": data["on"] | {"rows": learnt, "compared_on": compared},
                "held_out": data["held_out"] | {"rows": held_out, "set_apart": not asked.held_out},
                "calibration": {"rows": evidence.calibration_rows, "digest": evidence.calibration},
            },
            "task": {"kind": found.get("task", "classes"), "label": asked.label, "read_as": evidence.read_as},
            "limits": _limits(asked.limits),
            "quality": certificates.quality(verdict, evidence),
            "latency": certificates.latency(evidence.measures, evidence.original_measures),
            "host": adapter(Host).dump_python(evidence.host, mode="json") if evidence.host else found.get("host", {}),
            "verdict": {"fit": verdict.fit, "reasons": list(verdict.reasons)},
        }


def _limits(limits: Limits) -> dict[str, str]:
    return {name: f"{getattr(limits, name):g}" for name in ("max_drop", "max_slice_drop", "latency_ms", "confidence")}
