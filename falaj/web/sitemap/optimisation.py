"""The pages of optimised models: searches, their candidates, and the certificates of what came of them."""

from typing import Final

from falaj.base.operation import Group
from falaj.jobs.operations import jobs
from falaj.optimisation.operations import optimisations, variants
from falaj.web.optimisation import certificate, comparing, listing, optimisation
from falaj.web.pages import Fetch, Form, Load, Page
from falaj.web.sitemap.asking import THIS_PROJECT, may_here, of_path, to

READS: Final = may_here(Group.READ)
OPTIMISATIONS: Final = "/projects/{project}/optimisations"
OPTIMISATION: Final = f"{OPTIMISATIONS}/{{optimisation}}"
CERTIFICATE: Final = "/projects/{project}/certificate"

PAGES: Final = (
    Page(
        path=OPTIMISATIONS,
        section="projects",
        template="optimisations.html",
        loads={
            "project": THIS_PROJECT,
            "optimisations": Load(operation=optimisations.LIST_OPTIMISATIONS, request=listing.optimisations, when=READS),
        },
        derive=listing.rows,
    ),
    Page(
        path=OPTIMISATION,
        section="projects",
        template="optimisation.html",
        loads={
            "project": THIS_PROJECT,
            "optimisation": Load(
                operation=optimisations.SHOW_OPTIMISATION, request=of_path(optimisations.SHOW_OPTIMISATION), essential=True
            ),
            "jobs": Load(operation=jobs.LIST_JOBS, request=optimisation.jobs),
        },
        forms=(Form(operation=optimisations.ABANDON_OPTIMISATION, then=to(OPTIMISATION)),),
        derive=optimisation.story,
    ),
    Page(
        path=CERTIFICATE,
        section="projects",
        template="certificate.html",
        loads={
            "project": THIS_PROJECT,
            "certificate": Load(
                operation=variants.SHOW_CERTIFICATE, request=of_path(variants.SHOW_CERTIFICATE), essential=True
            ),
            "variants": Load(operation=variants.LIST_VARIANTS, request=certificate.variants, every=True),
        },
        fetches=(
            Fetch(path=f"{CERTIFICATE}/bundle", operation=variants.SHOW_CERTIFICATE, file=certificate.bundle),
            Fetch(path=f"{CERTIFICATE}/key", operation=variants.SHOW_CERTIFICATE, file=certificate.key),
            Fetch(path="/projects/{project}/variant/file", operation=variants.READ_VARIANT_FILE),
        ),
        about=("model", "version", "variant"),
        derive=certificate.story,
    ),
    Page(
        path="/projects/{project}/variants",
        section="projects",
        template="variants.html",
        loads={
            "project": THIS_PROJECT,
            "listed": Load(operation=variants.LIST_VARIANTS, request=comparing.listed, essential=True, every=True),
            "searched": Load(operation=optimisations.SHOW_OPTIMISATION, request=comparing.searches, each=True),
            "signed": Load(operation=variants.SHOW_CERTIFICATE, request=comparing.certificates, each=True),
        },
        about=("model", "version"),
        derive=comparing.story,
    ),
)

DONE: Final = {
    optimisations.ABANDON_OPTIMISATION.name: "The search is abandoned. What was certified stays; its job ends by itself.",
}
