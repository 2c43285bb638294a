"""Whether a version may answer: policy is asked about every revision whose share of the answers would grow."""

import math
from collections.abc import Mapping
from typing import Final

from falaj.base.errors import Forbidden
from falaj.base.operation import Permission
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.governance.policies.cedar import Deploying
from falaj.registry.approvals import given_before
from falaj.registry.clearing import is_cleared
from falaj.serving.operations.endpoints import DEPLOY
from falaj.serving.operations.words import WHOLE
from falaj.serving.splits import Arms, share_of
from falaj.serving.store import rungs as rung_store
from falaj.serving.store.approvals import approved_moves, names_held
from falaj.serving.store.tables import Found

ISOLATED: Final = "python"  # the runtime of models that run by their own code


def _points(share: float) -> int:
    """In hundredths of a per cent, never less than it is; Cedar has no fractions."""
    return math.ceil(round(share * 10_000, 6))


class Permits:
    """Thread-safe. Going back to a split that was in force needs no asking: it was asked about then."""

    def __init__(self, gate: Gatekeeper) -> None:
        self._gate = gate

    def check(
        self,
        context: Context,
        permission: Permission,
        endpoint: str,
        *,
        before: Arms,
        after: Arms,
        revisions: Mapping[int, Found],
        growing: int = 0,
    ) -> None:
        """`growing` is a revision that will get everything by itself. Its ladder is asked about, too: each of those may answer
        for as much. Raises `Forbidden` with the rule's name."""
        for arm in after:
            share = WHOLE if arm.revision == growing else share_of(after, arm.revision)
            if share <= share_of(before, arm.revision):
                continue
            revision = revisions[arm.revision]
            ladder = rung_store.of_revisions(context.work, [revision.id]).get(revision.id, ())
            for form in (revision, *ladder):
                self._ask(context, permission, endpoint, revision, form, share)

    def check_code(self, context: Context, version: Found) -> None:
        """Whether the version's own code may be loaded, in a sandbox, to make a servable form of it."""
        deploying = Deploying(
            endpoint="",
            model=version.model_name,
            version=version.number,
            share=0,
            approved=self._is_approved(context, version.model, version.number),
            signed=bool(version.digest),
            runs_code=True,
        )
        project = context.required_project.name
        ruling = self._gate.rule_on_deployment(context.work, context.identity, DEPLOY, project, deploying)
        if not ruling.allowed:
            raise Forbidden(
                f"Version {version.number} of model {version.model_name!r} has to be loaded by its own Python code to be "
                f"converted, which policy does not allow here ({', '.join(ruling.rules) or 'no permit'}). Log it in a format "
                "that needs no code: ONNX, LightGBM's text, XGBoost's JSON.",
                rule=ruling.rules[0] if ruling.rules else "no-permit",
            )

    def _ask(self, context: Context, permission: Permission, endpoint: str, revision: Found, form: Found, share: int) -> None:
        """`form` is what would answer: the revision's own, or a rung of its ladder."""
        deploying = Deploying(
            endpoint=endpoint,
            model=revision.model_name,
            version=revision.version,
            share=share,
            approved=self._is_approved(context, revision.model, revision.version),
            signed=bool(form.bundle),
            runs_code=form.runtime == ISOLATED,
            variant=form.variant,
            certified=not form.variant or bool(form.certificate),
            max_drop_bp=_points(form.max_drop),
            max_slice_drop_bp=_points(form.max_slice_drop),
            truth_known=form.truth_known,
        )
        project = context.required_project.name
        ruling = self._gate.rule_on_deployment(context.work, context.identity, permission, project, deploying)
        if ruling.allowed:
            return
        rule = ruling.rules[0] if ruling.rules else "policy.error" if ruling.trouble else "no-permit"
        as_variant = f" as the variant {form.variant!r}" if form.variant else ""
        what = f"Version {revision.version} of model {revision.model_name!r} may not answer for {endpoint!r}{as_variant}"
        if rule == "deployment.four-eyes":
            raise Forbidden(
                f"{what}: nobody approved it for production. Ask for its promotion (`falaj model promote`), have "
                "somebody else approve that, and deploy it then; as a shadow it may run at once.",
                rule=rule,
            )
        if rule == "deployment.uncertified":
            raise Forbidden(
                f"{what}: it has no certificate that holds (`falaj model certificate` shows what is proven of it). Have a "
                "variant certified (`falaj optimise`) and deploy that, or deploy the original; as a shadow it may run at once.",
                rule=rule,
            )
        if rule == "deployment.loose-certificate":
            raise Forbidden(
                f"{what}: its certificate allows {form.max_drop:.2%} to be lost, and here at most "
                f"{self._gate.profile.loosest_bp / 10_000:.2%} may be. Have one certified more closely (`falaj optimise "
                "--max-drop 0.5%`), or deploy the original; as a shadow it may run at once.",
                rule=rule,
            )
        raise Forbidden(f"{what}: this is refused by {', '.join(ruling.rules) or rule}.", rule=rule)

    def _is_approved(self, context: Context, model: str, version: int) -> bool:
        """It has an alias (or stage) that needs four eyes, had one that was approved, or would be given one that is approved:
        so a canary may come before the move that it is to try."""
        needs, work = self._gate.profile.wants_four_eyes, context.work
        if any(needs(name) for name in names_held(work, model, version) if name != "None"):
            return True
        used = [row.approval for row in approved_moves(work, model, version) if needs(row.alias)]
        return given_before(work, used)[1] > 0 or is_cleared(context, self._gate, model, version)
