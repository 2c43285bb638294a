"""What somebody should hear of a training set at once, instead of finding it out with a model that learnt nothing."""

from typing import Any

from falaj.base.errors import FalajError
from falaj.cli.terminal import Terminal
from falaj.datasets.operations import features, profiles
from falaj.datasets.operations.versions import OneVersion
from falaj.tables.joining.views import Feature


def tell_of_nothing_known(terminal: Terminal, project: str, made: features.TrainingSet) -> None:
    """Names the views of which no label of the training set knows anything. Most often that is history which was imported
    without a column that says when it became known."""
    try:
        columns = _columns(terminal, project, made)
        shown = [terminal.call(features.SHOW_VIEW, features.OneView(project=project, view=name)) for name in made.views]
    except FalajError:
        return  # the training set is made; what is said of it is no reason to fail
    for view in shown:
        joined = [one for one in view.features if one.name in columns]
        if made.version.rows and joined and all(_is_empty(one, columns[one.name], made.version.rows) for one in joined):
            terminal.say(f"Warning: no label knows anything of {view.view}@{view.version}. {_why(view)}")


def _columns(terminal: Terminal, project: str, made: features.TrainingSet) -> dict[str, dict[str, Any]]:
    one = OneVersion(project=project, dataset=made.version.dataset, version=str(made.version.version))
    return {column["name"]: column for column in terminal.call(profiles.PROFILE_VERSION, one).columns}


def _is_empty(feature: Feature, column: dict[str, Any], rows: int) -> bool:
    """Of an entity of which nothing is known counts are 0, and everything else is null."""
    return bool(column["nulls"] == rows or (feature.function in ("count", "distinct") and column.get("max") == 0))


def _why(view: features.FeatureView) -> str:
    if view.known:
        return (
            f"Its rows became known ({view.known!r}) or happened ({view.event!r}) after the labels, or are of other entities."
        )
    return (
        f"Its rows count as known since they were published here: where {view.dataset!r} is history that was imported, name "
        "the column that says when they became known (known)."
    )
