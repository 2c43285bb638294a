"""Every page of the console, each a few lines: what it loads, which forms it offers, where they lead."""

from typing import Final

from falaj.web.sitemap import (
    abtests,
    datasets,
    experiments,
    jobs,
    models,
    monitoring,
    optimisation,
    pipelines,
    platform,
    projects,
    serving,
)

PAGES: Final = (
    *platform.PAGES,
    *projects.PAGES,
    *experiments.PAGES,
    *models.PAGES,
    *optimisation.PAGES,
    *serving.PAGES,
    *monitoring.PAGES,
    *abtests.PAGES,
    *jobs.PAGES,
    *pipelines.PAGES,
    *datasets.PAGES,
)
DONE: Final = (
    platform.DONE
    | projects.DONE
    | experiments.DONE
    | models.DONE
    | optimisation.DONE
    | serving.DONE
    | monitoring.DONE
    | abtests.DONE
    | jobs.DONE
    | pipelines.DONE
)
