"""The pages of A/B tests: all of a project's, and the report of one."""

from typing import Final

from falaj.base.operation import Group
from falaj.monitoring.operations import abtests as declared
from falaj.web.monitoring import abtests
from falaj.web.pages import Form, Load, Page
from falaj.web.sitemap.asking import THIS_PROJECT, may_here, of_path, to

READS: Final = may_here(Group.READ)
ABTESTS: Final = "/projects/{project}/abtests"
ABTEST: Final = f"{ABTESTS}/{{abtest}}"

PAGES: Final = (
    Page(
        path=ABTESTS,
        section="projects",
        template="abtests.html",
        loads={
            "project": THIS_PROJECT,
            "abtests": Load(operation=declared.LIST_ABTESTS, request=abtests.abtests, when=READS),
        },
        derive=abtests.listing,
    ),
    Page(
        path=ABTEST,
        section="projects",
        template="abtest.html",
        loads={
            "project": THIS_PROJECT,
            "abtest": Load(operation=declared.SHOW_ABTEST, request=of_path(declared.SHOW_ABTEST), essential=True),
            "points": Load(operation=declared.READ_POINTS, request=of_path(declared.READ_POINTS)),
        },
        forms=(Form(operation=declared.STOP_ABTEST, then=to(ABTEST)),),
        derive=abtests.story,
    ),
)

DONE: Final = {declared.STOP_ABTEST.name: "The test is over, without a verdict."}
