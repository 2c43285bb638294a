"""Views whose rows a Python function makes: a job runs it over what it reads, where it was not run over that yet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from falaj.cli.dataset_derivations import PATIENCE, FunctionOptions, by_function
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal
from falaj.datasets.operations import features

if TYPE_CHECKING:
    from falaj.client import functions
else:
    functions = Deferred("falaj.client.functions")


def applied(terminal: Terminal, view: features.ApplyView, options: FunctionOptions) -> features.FeatureView:
    """Its rows are made first, so that what is wrong with them is seen before the view counts."""
    if view.python is not None and view.inputs:
        _run(terminal, view.project, view.dataset or f"{view.view}-rows", view.python, view.inputs, options)
    return terminal.call(features.APPLY_VIEW, view, patience=PATIENCE)


def refresh(terminal: Terminal, project: str, references: Sequence[str], options: FunctionOptions) -> None:
    """Run the functions of these views, or of views that these are features of, over what is new."""
    for reference in dict.fromkeys(one.partition(":")[0] for one in references):
        view = terminal.call(features.SHOW_VIEW, features.OneView(project=project, view=reference))
        if view.python is not None:
            _run(terminal, project, view.dataset, view.python, view.inputs, options)


def _run(
    terminal: Terminal,
    project: str,
    into: str,
    function: features.ViewFunction,
    inputs: tuple[str, ...],
    options: FunctionOptions,
) -> None:
    given = functions.Function(source=function.source, name=function.function, lock=function.lock)
    by_function(terminal, project, into, given, inputs, options, current=False)
