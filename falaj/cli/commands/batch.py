"""`falaj batch`: what a model says about every row of a dataset, as a job that writes a version."""

from typing import Annotated

import typer

from falaj.cli.choosing import project_of
from falaj.cli.command import Commands
from falaj.cli.commands.deploy import PATIENCE, meant
from falaj.cli.job_options import JobOptions
from falaj.cli.job_plans import begun, planned
from falaj.cli.terminal import Terminal
from falaj.client.batches.asking import spec_of
from falaj.jobs.operations import jobs as declared
from falaj.serving.operations.batches import PLAN_BATCH, PlanBatch

commands = Commands("Predictions for whole datasets.")


@commands.command("batch")
def batch(
    terminal: Terminal,
    model: Annotated[
        str, typer.Argument(help="MODEL:VERSION or MODEL@ALIAS; MODEL alone is its champion.", show_default=False)
    ],
    on: Annotated[str, typer.Option(help="The dataset, or a version of it: sales, sales@7.", show_default=False)],
    into: Annotated[
        str, typer.Option(help="The dataset that gets the new version; made where there is none.", show_default=False)
    ],
    keep: Annotated[
        list[str] | None, typer.Option(help="A column that stands before the predictions. Repeatable.", show_default=False)
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Behind the rows that are there, not in their place.")] = False,
    rows: Annotated[int, typer.Option(help="Of one piece, in memory at once; 0: what fits the columns.", min=0)] = 0,
    *,
    options: JobOptions,
) -> None:
    """Predict for every row of a dataset's version, as a job, and write what comes out as a version.

    Killed or preempted it goes on from the last piece it wrote.

    Example: falaj batch churn@champion --on customers@7 --into scored --keep id --project fraud
    """
    project = project_of(terminal, options.project)
    registered, version, alias = meant(model)
    request = PlanBatch(
        project=project,
        model=registered,
        version=version,
        alias=alias,
        on=on,
        into=into,
        keep=tuple(keep or ()),
        append=append,
        rows=rows,
    )
    decided = terminal.call(PLAN_BATCH, request, patience=PATIENCE)
    for remark in decided.remarks:
        terminal.say(remark)
    spec = spec_of(decided, options.spec(command=("python",)))
    if options.dry_run:
        terminal.run(declared.PLAN_JOB, declared.Submit(project=project, spec=spec), planned)
        return
    terminal.say(f"{decided.model} v{decided.version} on {decided.dataset}@{decided.number}, into {decided.into}.")
    made = terminal.call(declared.SUBMIT_JOB, declared.Submit(project=project, spec=spec))
    begun(terminal, project, made, options.follow)
