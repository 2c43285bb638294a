"""Giving traffic: deploying a version, splitting, promoting and going back.

Every change is decided while the endpoint's row is held, so changes have one order, and all of them are in the history.
"""

from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, Invalid
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.features.lookups import LookupViews
from falaj.governance.gate import Gatekeeper
from falaj.registry.meaning import meant_version
from falaj.registry.operations.words import CHAMPION
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.store.tables import Found
from falaj.registry.verifying import Verifier
from falaj.serving import looking_up, splits
from falaj.serving.changing import Growth, change_split, first_step, way_back
from falaj.serving.choosing import Choosing, Picked, form_of
from falaj.serving.forms import Form, Forms
from falaj.serving.looking_up import Lookups
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import Deploy, Deployment, Endpoint, Options
from falaj.serving.operations.words import ChangeKind, Steps
from falaj.serving.permitting import Permits
from falaj.serving.revisions import RevisionMaker
from falaj.serving.splits import Arms, read_arms, written
from falaj.serving.store import endpoints as store
from falaj.serving.variants import Variants
from falaj.serving.views import endpoint_shown, options_written, required_endpoint
from falaj.storage.service import BlobService

MOST_ENDPOINTS: Final = 1000  # of one project


@value
class Chosen:
    """What the first step found: the version that is meant, and how it is served."""

    version: Found
    form: Form
    picked: Picked


class DeploymentService:
    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        verifier: Verifier,
        signers: ProjectSigners,
        gate: Gatekeeper,
        forms: Forms,
        views: LookupViews,
        variants: Variants | None = None,
    ) -> None:
        self._database = database
        self._verifier = verifier
        self._permits = Permits(gate)
        self._forms = forms
        self._views = views
        self._choosing = Choosing(variants)
        self._revisions = RevisionMaker(blobs, signers)

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.DEPLOY_REVISION, self.choose, self.deploy),
            bind(declared.SPLIT_TRAFFIC, self.split),
            bind(declared.PROMOTE_REVISION, self.promote),
            bind(declared.ROLL_BACK, self.roll_back),
        ]

    # Deploying: the first step reads files, the second is the transaction

    def choose(self, context: Context, request: Deploy) -> Chosen:
        splits.check_steps(request.steps)
        if request.steps.shares and request.mode != "canary":
            raise Invalid(f"Steps are for a canary; this deployment's mode is {request.mode!r}.")

        def look(work: UnitOfWork) -> tuple[Found, Picked]:
            within = replace(context, work=work)
            version = _meant(within, request)
            self._verifier.check_whole(within, version)
            if request.features:
                self._views.chosen(within, request.features)
            return version, self._choosing.pick(within, version, request.variant, ladder=request.ladder)

        version, picked = self._database.read(look)
        if picked.variant is not None:
            form = form_of(version, picked.variant)
        else:
            form = self._forms.of(context, version, allow_python=request.allow_python)
        return Chosen(version=version, form=form, picked=picked)

    def deploy(self, context: Context, request: Deploy, chosen: Chosen) -> Deployment:
        version = _meant(context, request)
        if version.id != chosen.version.id:
            raise Conflict(f"{request.alias or CHAMPION} of {request.model!r} moved while it was deployed; deploy it again.")
        self._verifier.check_whole(context, version)
        self._choosing.check_again(context, version, chosen.picked)
        endpoint = self._endpoint(context, request)
        before = read_arms(endpoint.arms)
        lookups = self._lookups(context, request, endpoint, before, chosen.form)
        number, made = self._revisions.make(context, endpoint, version, chosen.form, lookups, chosen.picked)
        arms, growth, remarks = _planned(request, before, number, context.now)
        reasons = store.quarantine_reasons(context.work, endpoint.id)
        arms = splits.check(arms, reasons, request.endpoint)
        revisions = store.revisions_of(context.work, endpoint.id, [arm.revision for arm in arms])
        self._permits.check(
            context,
            declared.DEPLOY,
            request.endpoint,
            before=before,
            after=arms,
            revisions=revisions,
            growing=growth.canary if growth else 0,
        )
        others = {} if request.options is None else {"options": options_written(request.options)}
        facts = change_split(
            context.work,
            endpoint,
            kind="deploy",
            arms=arms,
            by=context.identity.principal,
            reason=request.reason,
            now=context.now,
            growth=growth,
            others=others,
        )
        context.facts.update(facts, **made)
        return Deployment(
            endpoint=self._shown(context, request.endpoint),
            revision=number,
            remarks=(*remarks, *chosen.form.remarks, *chosen.picked.remarks, *lookups.remarks),
        )

    def _lookups(self, context: Context, request: Deploy, endpoint: Found, before: Arms, form: Form) -> Lookups:
        """What is looked up for it: what was said, or what is looked up for the revision that answers now."""
        live = [arm.revision for arm in before if arm.role == "live"]
        answering = store.revisions_of(context.work, endpoint.id, live)
        wished = request.features
        if wished is None:
            wished = looking_up.before(context, answering.get(splits.main_revision(before)))
        kept = request.features is None
        lookups = looking_up.decided(context, self._views, wished, form.columns, kept=kept)
        for one in lookups.views:
            if one.choice.zone != endpoint.zone:
                raise Conflict(
                    f"{one.choice.reference!r} is kept in the zone {one.choice.zone!r}, and {endpoint.name!r} answers in "
                    f"{endpoint.zone!r}: what is looked up does not leave its zone."
                )
        if request.mode != "live":
            looking_up.check_beside(context, endpoint.name, request.mode, lookups, list(answering.values()))
        return lookups

    def _endpoint(self, context: Context, request: Deploy) -> Found:
        """The one there is, held, or a new one."""
        project = context.required_project
        if (found := store.find(context.work, project.id, request.endpoint, hold=True)) is not None:
            if request.zone and request.zone != found.zone:
                raise Conflict(
                    f"Endpoint {request.endpoint!r} answers in zone {found.zone!r}; deploy under another name for zone "
                    f"{request.zone!r}."
                )
            if found.zone not in {place.zone for place in project.places}:
                raise Conflict(f"Endpoint {request.endpoint!r} is in zone {found.zone!r}, which the project has given up.")
            return found
        if not project.places:
            raise Forbidden(f"The project {project.name!r} has no zone to serve in.", rule="zones-of-project")
        if store.count(context.work, project.id) >= MOST_ENDPOINTS:
            raise Conflict(f"The project has {MOST_ENDPOINTS} endpoints already; delete one first.")
        row = {
            "id": new_id(context.now),
            "project": project.id,
            "name": request.endpoint,
            "zone": request.zone or project.places[0].zone,
            "arms": written(()),
            "options": options_written(Options()),
            "back_to": 0,
            "steps": written(Steps()),
            "step": 0,
            "next_step": None,
            "canary": 0,
            "growing": None,
            "last_revision": 0,
            "last_change": 0,
            "serial": 0,
            "created": context.now,
            "created_by": context.identity.principal,
            "changed": context.now,
            "deleted": None,
        }
        store.add(context.work, row)
        # Somebody may have made it at the same moment: then theirs is the one.
        return required_endpoint(context, request.endpoint, hold=True)

    # The rest

    def split(self, context: Context, request: declared.Split) -> Endpoint:
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        return self._change(context, endpoint, "split", request.arms, request.reason)

    def promote(self, context: Context, request: declared.PromoteRevision) -> Endpoint:
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        revision = request.revision or max((arm.revision for arm in read_arms(endpoint.arms)), default=0)
        if not revision:
            raise Conflict(f"Endpoint {request.endpoint!r} has no revision to promote; deploy one first.")
        return self._change(context, endpoint, "promote", splits.everything_to(revision), request.reason)

    def _change(self, context: Context, endpoint: Found, kind: ChangeKind, wished: Arms, reason: str) -> Endpoint:
        before = read_arms(endpoint.arms)
        arms = splits.check(wished, store.quarantine_reasons(context.work, endpoint.id), endpoint.name)
        if arms != before or endpoint.canary:
            revisions = store.revisions_of(context.work, endpoint.id, [arm.revision for arm in arms])
            looking_up.check_together(context, endpoint.name, list(revisions.values()))
            self._permits.check(context, declared.DEPLOY, endpoint.name, before=before, after=arms, revisions=revisions)
            self._apply(context, endpoint, kind, arms, reason)
        return self._shown(context, endpoint.name)

    def roll_back(self, context: Context, request: declared.RollBack) -> Endpoint:
        endpoint = required_endpoint(context, request.endpoint, hold=True)
        arms = way_back(context.work, endpoint.id)
        if not arms:
            raise Conflict(f"Endpoint {request.endpoint!r} has no earlier split that could be gone back to; see its history.")
        self._apply(context, endpoint, "rollback", arms, request.reason)
        return self._shown(context, request.endpoint)

    def _apply(self, context: Context, endpoint: Found, kind: ChangeKind, arms: Arms, reason: str) -> None:
        by = context.identity.principal
        facts = change_split(context.work, endpoint, kind=kind, arms=arms, by=by, reason=reason, now=context.now)
        context.facts.update(facts)

    def _shown(self, context: Context, name: str) -> Endpoint:
        return endpoint_shown(context.work, required_endpoint(context, name), context.now)


def _meant(context: Context, request: Deploy) -> Found:
    return meant_version(context, request.model, request.version, request.alias)


def _planned(request: Deploy, before: Arms, number: int, now: Moment) -> tuple[Arms, Growth | None, tuple[str, ...]]:
    """The split that a deployment asks for, how it goes on by itself, and what to tell about that."""
    if request.mode == "shadow":
        return splits.shadowed(before, number, request.share, request.label), None, ()
    if request.mode == "live":
        return splits.everything_to(number, request.label), None, ()
    if not any(arm.role == "live" for arm in before):
        return (
            splits.everything_to(number, request.label),
            None,
            ("The endpoint answered with nothing before, so this revision gets everything.",),
        )
    growth = first_step(number, request.steps, now) if request.steps.shares else None
    share = request.steps.shares[0] if request.steps.shares else request.share
    return splits.beside(before, number, share, request.label), growth, ()
