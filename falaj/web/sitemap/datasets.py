"""The pages of datasets and feature views.

What leaves a record when it is read, rows and what is made of them, has pages of its own: lists and datasets can be linked from
anywhere.
"""

from typing import Final

from falaj.base.operation import Group
from falaj.datasets.operations import checks, classes, comparing, datasets, features, profiles, pushing, reading, versions
from falaj.lineage import operations as lineage
from falaj.web.datasets import comparing as compared
from falaj.web.datasets import dataset, listing, version
from falaj.web.datasets import features as feature_views
from falaj.web.pages import Load, Page
from falaj.web.sitemap.asking import THIS_PROJECT, may_here, of_path
from falaj.web.sitemap.discussion import MEMBERS

READS: Final = may_here(Group.READ)
DATASETS: Final = "/projects/{project}/datasets"
DATASET: Final = "/projects/{project}/datasets/{dataset}"
ITSELF: Final = Load(operation=datasets.SHOW_DATASET, request=of_path(datasets.SHOW_DATASET), essential=True)
CLASSES: Final = Load(operation=classes.SHOW_CLASSES, request=of_path(classes.SHOW_CLASSES))

PAGES: Final = (
    Page(
        path=DATASETS,
        section="projects",
        template="datasets.html",
        loads={
            "project": THIS_PROJECT,
            "datasets": Load(operation=datasets.LIST_DATASETS, request=listing.datasets, when=READS),
            "classes": Load(operation=classes.SHOW_CLASSES, request=listing.classes, when=READS, each=True),
            "quarantined": Load(operation=versions.SHOW_VERSION, request=listing.quarantined, when=READS, each=True),
        },
        derive=listing.story,
    ),
    Page(
        path=DATASET,
        section="projects",
        template="dataset.html",
        loads={
            "project": THIS_PROJECT,
            "dataset": ITSELF,
            "versions": Load(operation=versions.LIST_VERSIONS, request=dataset.versions),
            "current": Load(operation=versions.SHOW_VERSION, request=dataset.current),
            "classes": CLASSES,
            "checks": Load(operation=checks.SHOW_CHECKS, request=of_path(checks.SHOW_CHECKS)),
            "pushes": Load(operation=pushing.SHOW_PUSHES, request=of_path(pushing.SHOW_PUSHES)),
            "lineage": Load(operation=lineage.SHOW_GRAPH, request=dataset.graph_around("current")),
            "members": MEMBERS,
        },
        derive=dataset.story,
    ),
    Page(
        path=f"{DATASET}/versions/{{version}}",
        section="projects",
        template="dataset_version.html",
        loads={
            "project": THIS_PROJECT,
            "dataset": ITSELF,
            "shown": Load(operation=versions.SHOW_VERSION, request=of_path(versions.SHOW_VERSION), essential=True),
            "classes": CLASSES,
            "findings": Load(operation=checks.SHOW_FINDINGS, request=version.findings),
            "preview": Load(operation=reading.PREVIEW, request=version.preview),
            "profile": Load(operation=profiles.PROFILE_VERSION, request=version.profile),
            "lineage": Load(operation=lineage.SHOW_GRAPH, request=dataset.graph_around("shown")),
        },
        derive=version.story,
    ),
    Page(
        path=f"{DATASET}/diff",
        section="projects",
        template="dataset_diff.html",
        loads={
            "project": THIS_PROJECT,
            "dataset": ITSELF,
            "versions": Load(operation=versions.LIST_VERSIONS, request=compared.versions),
            "diff": Load(operation=comparing.COMPARE_VERSIONS, request=compared.difference),
        },
        derive=compared.story,
    ),
    Page(
        path="/projects/{project}/features",
        section="projects",
        template="features.html",
        loads={
            "project": THIS_PROJECT,
            "views": Load(operation=features.LIST_VIEWS, request=feature_views.views, when=READS),
            "earlier": Load(operation=features.SHOW_VIEW, request=feature_views.earlier, when=READS, each=True),
            "chosen": Load(operation=features.SHOW_VIEW, request=feature_views.chosen, when=READS),
        },
        derive=feature_views.story,
    ),
)
