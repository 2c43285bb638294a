"""The pages of registered models and their versions."""

from typing import Any, Final
from urllib.parse import urlencode

from falaj.base.operation import Group
from falaj.datasets.operations import datasets
from falaj.lifecycle.operations import stories
from falaj.lineage import operations as lineage
from falaj.optimisation.operations import optimisations, variants
from falaj.registry.operations import evidence, models, promotions, versions
from falaj.web.forms import checked
from falaj.web.models import model, moves, version
from falaj.web.optimisation import asking, listing
from falaj.web.optimisation.amounts import optimisation_of
from falaj.web.pages import Fetch, Form, Load, Page, Picture
from falaj.web.sitemap import discussion
from falaj.web.sitemap.asking import THIS_PROJECT, may_here, of_path, to
from falaj.web.sitemap.serving import ALL_ENDPOINTS, DEPLOYING
from falaj.web.stories import file as story_file
from falaj.web.stories import page as story_page
from falaj.web.visits import Visit

READS: Final = may_here(Group.READ)
MODELS: Final = "/projects/{project}/models"
MODEL: Final = "/projects/{project}/model"
VERSION: Final = "/projects/{project}/versions/{id}"


def _search(visit: Visit) -> Any:
    asked = {name: visit.query[name] for name in ("filter", "cursor") if visit.query.get(name)}
    if "filter" in asked:
        asked["filter"] = model.as_filter(asked["filter"])
    return checked(models.SEARCH_MODELS, {"project": visit.project, **asked})


def _address(visit: Visit, name: str) -> str:
    return f"/projects/{visit.project}/model?{urlencode({'model': name})}"


def _to_model(visit: Visit, made: models.Model) -> str:
    return _address(visit, made.name)


def _same_model(visit: Visit, _result: Any) -> str:
    return _address(visit, visit.path["model"])


def _open_approvals(visit: Visit) -> promotions.ListApprovals:
    return promotions.ListApprovals(project=visit.project)


def _asked(visit: Visit) -> list[tuple[str, Any]]:
    found = visit.loaded["approvals"]
    return [(visit.project, approval) for approval in found.items] if found is not None else []


def _wishes(visit: Visit) -> dict[str, Any]:
    wishes = moves.wishes(visit, _asked(visit))
    return {state: [wish for wish in wishes if wish.approval.state == state] for state in ("ready", "waiting")}


MOVES: Final = (
    Form(operation=promotions.PROMOTE, then=_same_model, beside=True, told=lambda moved: moved.state),
    Form(operation=promotions.ROLLBACK, then=_same_model, told=lambda moved: moved.state),
    Form(operation=promotions.REMOVE_ALIAS, then=_same_model, told=lambda moved: moved.state),
    Form(operation=promotions.GIVE_APPROVAL, then=_same_model, told=lambda approval: approval.state),
    Form(operation=promotions.REFUSE_APPROVAL, then=_same_model),
    Form(operation=promotions.WITHDRAW_APPROVAL, then=_same_model),
)

OPTIMISING: Final = Form(
    operation=optimisations.PLAN_OPTIMISATION,
    then=lambda visit, planned: optimisation_of(visit.project, planned.id),
    beside=True,
    request=asking.plan,
    after=asking.submit,
)

PAGES: Final = (
    Page(
        path=MODELS,
        section="projects",
        template="models.html",
        loads={
            "project": THIS_PROJECT,
            "models": Load(operation=models.SEARCH_MODELS, request=_search, when=READS),
            "approvals": Load(operation=promotions.LIST_APPROVALS, request=_open_approvals, when=READS),
            "models_asked": Load(operation=models.SHOW_MODEL, request=lambda v: moves.models_asked(_asked(v)), each=True),
            "versions_left": Load(
                operation=versions.SHOW_VERSION, request=lambda v: moves.versions_left(v, _asked(v)), each=True
            ),
        },
        forms=(Form(operation=models.CREATE_MODEL, then=_to_model, beside=True),),
        derive=_wishes,
    ),
    Page(
        path=MODEL,
        section="projects",
        template="model.html",
        loads={
            "project": THIS_PROJECT,
            "model": Load(operation=models.SHOW_MODEL, request=of_path(models.SHOW_MODEL), essential=True),
            "versions": Load(operation=versions.SEARCH_VERSIONS, request=model.versions),
            "history": Load(operation=promotions.HISTORY, request=model.history),
            "approvals": Load(operation=promotions.LIST_APPROVALS, request=model.approvals),
            "as_of": Load(operation=promotions.MODEL_AS_OF, request=model.as_of),
            **discussion.about("model", lambda visit: visit.loaded["model"].id),
        },
        forms=(
            *MOVES,
            Form(operation=models.DESCRIBE_MODEL, then=_same_model),
            Form(operation=models.RENAME_MODEL, then=_to_model),
            Form(operation=models.DELETE_MODEL, then=to(MODELS)),
            Form(operation=models.TAG_MODEL, then=_same_model),
            Form(operation=models.UNTAG_MODEL, then=_same_model),
            *discussion.forms(_same_model),
        ),
        about=("model",),
        derive=model.story,
    ),
    Page(
        path=VERSION,
        section="projects",
        template="version.html",
        loads={
            "project": THIS_PROJECT,
            "registered": Load(operation=versions.FIND_VERSION, request=of_path(versions.FIND_VERSION), essential=True),
            "files": Load(operation=versions.LIST_VERSION_FILES, request=version.files),
            "servable": Load(operation=versions.CHECK_SERVABLE, request=version.asking(versions.CHECK_SERVABLE)),
            "lineage": Load(operation=lineage.SHOW_GRAPH, request=version.graph),
            "evidence": Load(operation=evidence.READ_EVIDENCE, request=version.asking(evidence.READ_EVIDENCE)),
            "endpoints": ALL_ENDPOINTS,
            "others": Load(operation=versions.SEARCH_VERSIONS, request=version.others),
            "diff": Load(operation=versions.DIFF_VERSIONS, request=version.diff),
            "variants": Load(operation=variants.LIST_VARIANTS, request=listing.variants, every=True),
            "optimisations": Load(operation=optimisations.LIST_OPTIMISATIONS, request=listing.earlier),
            "datasets": Load(operation=datasets.LIST_DATASETS, request=listing.datasets),
            **discussion.about("version", lambda visit: visit.loaded["registered"].id),
        },
        forms=(
            Form(operation=versions.VERIFY_VERSION),
            DEPLOYING,
            OPTIMISING,
            Form(operation=versions.DESCRIBE_VERSION, then=to(VERSION)),
            Form(operation=versions.DELETE_VERSION, then=to(MODELS)),
            Form(operation=versions.TAG_VERSION, then=to(VERSION)),
            Form(operation=versions.UNTAG_VERSION, then=to(VERSION)),
            *discussion.forms(to(VERSION)),
        ),
        fetches=(
            Fetch(path="/projects/{project}/version/sbom", operation=versions.GET_SBOM),
            Fetch(path="/projects/{project}/version/signature", operation=versions.GET_SIGNATURE),
        ),
        derive=version.story,
    ),
    Page(
        path=f"{VERSION}/story",
        section="projects",
        template="story.html",
        loads={
            "project": THIS_PROJECT,
            "registered": Load(operation=versions.FIND_VERSION, request=of_path(versions.FIND_VERSION), essential=True),
            "story": Load(operation=stories.READ_STORY, request=story_page.asked, essential=True),
        },
        fetches=(Fetch(path="/projects/{project}/version/story", operation=stories.READ_STORY, file=story_file.download),),
        derive=story_page.shown,
    ),
    Page(
        path="/projects/{project}/version/files",
        section="projects",
        template="version_file.html",
        loads={
            "project": THIS_PROJECT,
            "registered": Load(operation=versions.SHOW_VERSION, request=of_path(versions.SHOW_VERSION), essential=True),
            "files": Load(operation=versions.LIST_VERSION_FILES, request=version.files, essential=True),
            "file": Load(operation=versions.GET_VERSION_FILE, request=version.beginning, essential=True),
        },
        fetches=(Fetch(path="/projects/{project}/version/file", operation=versions.GET_VERSION_FILE),),
        pictures=(Picture(path="/projects/{project}/version/picture", operation=versions.GET_VERSION_FILE),),
        about=("model", "version", "name"),
        derive=version.file_story,
    ),
)

DONE: Final = {
    models.CREATE_MODEL.name: "The model is there, still without versions. Register one from a run.",
    models.DESCRIBE_MODEL.name: "The description was changed.",
    models.RENAME_MODEL.name: "The model has its new name; its versions and history went with it.",
    models.DELETE_MODEL.name: "The model is gone. What happened to it stays on record.",
    models.TAG_MODEL.name: "The tag is set.",
    models.UNTAG_MODEL.name: "The tag is gone.",
    promotions.PROMOTE.name: "The alias points at that version now.",
    f"{promotions.PROMOTE.name}:waiting": "Policy wants somebody else's approval first. It is asked for; see below.",
    f"{promotions.PROMOTE.name}:unchanged": "The alias pointed there already.",
    promotions.ROLLBACK.name: "The alias points at the version before again.",
    f"{promotions.ROLLBACK.name}:waiting": "Policy wants an approval for going back, too. It is asked for; see below.",
    f"{promotions.ROLLBACK.name}:unchanged": "The alias pointed there already.",
    promotions.REMOVE_ALIAS.name: "The alias is gone; its history stays.",
    f"{promotions.REMOVE_ALIAS.name}:waiting": "Policy wants somebody else's approval first. It is asked for; see below.",
    f"{promotions.REMOVE_ALIAS.name}:unchanged": "There was no such alias any more.",
    promotions.GIVE_APPROVAL.name: "Your approval is given.",
    f"{promotions.GIVE_APPROVAL.name}:ready": "Your approval was the last one needed: the move can be made now.",
    promotions.REFUSE_APPROVAL.name: "You refused; that ends it.",
    promotions.WITHDRAW_APPROVAL.name: "The request is taken back.",
    optimisations.PLAN_OPTIMISATION.name: "Its job is submitted. This page fills as candidates are made and measured.",
    versions.DESCRIBE_VERSION.name: "The description was changed.",
    versions.DELETE_VERSION.name: "The version is gone. Its number is never given again.",
    versions.TAG_VERSION.name: "The tag is set.",
    versions.UNTAG_VERSION.name: "The tag is gone.",
}
