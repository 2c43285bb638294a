"""Feature views as people write them, in a file or as dictionaries, read into the requests that apply them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from falaj.base.clock import SECOND
from falaj.base.errors import Invalid
from falaj.base.spans import seconds_of
from falaj.client.derived_views import WORDS, rows_told
from falaj.datasets.operations.features import ApplyView
from falaj.tables.joining.views import Feature, Function, Key

_VIEW: Final = {"name", *WORDS, "keys", "event", "known", "features", "time_to_live", "description", "log"}
_FEATURE: Final = {"column", "function", "period"}
_NEEDED: Final = ("name", "keys", "event", "features")
_HERE: Final = Path()


def views_told(told: Mapping[str, Any], project: str, *, what: str, folder: Path = _HERE) -> list[ApplyView]:
    """What a file says, or a dictionary of its form, or of one view of it. Raises `Invalid` for what is misspelled, by its name
    and place. Files that it names lie in `folder`."""
    if "view" not in told and "name" in told:
        return [view_told(told, project, folder)]
    _refuse_unknown(what, told, {"view"})
    views = told.get("view")
    if not isinstance(views, Sequence) or not views or not all(isinstance(one, dict) for one in views):
        raise Invalid(f"{what} defines no views: write each as a table of its own, [[view]], or in YAML in a list `view`.")
    return [view_told(one, project, folder) for one in views]


def view_told(told: Mapping[str, Any], project: str, folder: Path = _HERE) -> ApplyView:
    what = f"view {told.get('name', '?')!r}"
    _refuse_unknown(what, told, _VIEW)
    rows = rows_told(what, told, folder)
    if missing := [name for name in _NEEDED if name not in told]:
        raise Invalid(f"{what} lacks {missing[0]!r}; it needs {', '.join(_NEEDED)}.")
    features = told["features"]
    if not isinstance(features, dict):
        raise Invalid(
            f"The features of {what} are no table; write each like clicks_7d = {{ function = 'count', period = '7d' }}."
        )
    return ApplyView(
        project=project,
        view=told["name"],
        **rows,
        keys=_keys(what, told["keys"]),
        event=told["event"],
        known=told.get("known", ""),
        features=tuple(_feature(what, str(name), one) for name, one in features.items()),
        time_to_live=_microseconds(told["time_to_live"]) if "time_to_live" in told else None,
        description=told.get("description", ""),
        log=_share(what, told.get("log", 0.0)),
    )


def _keys(what: str, told: Any) -> tuple[Key, ...]:
    """A list of columns, or a table of columns with what labels call them."""
    if isinstance(told, dict):
        return tuple(Key(column=str(column), label=str(label)) for column, label in told.items())
    if isinstance(told, list) and all(isinstance(one, str) for one in told):
        return tuple(Key(column=column) for column in told)
    raise Invalid(
        f'The keys of {what} are columns, like ["user"], or where labels call them otherwise {{ user = "customer" }}.'
    )


def _feature(what: str, name: str, told: Any) -> Feature:
    if not isinstance(told, dict):
        raise Invalid(f"Feature {name!r} of {what} is no table; write it like {{ column = 'amount', function = 'sum' }}.")
    _refuse_unknown(f"feature {name!r} of {what}", told, _FEATURE)
    return Feature(
        name=name,
        column=told.get("column", ""),
        function=cast(Function, told.get("function", "last")),
        period=_microseconds(told["period"]) if "period" in told else None,
    )


def _microseconds(told: Any) -> int:
    return seconds_of(str(told)) * SECOND


def _share(what: str, told: Any) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= 1:
        raise Invalid(f"What is logged of {what} is a share from 0 to 1, such as 0.1, and not {told!r}.")
    return float(told)


def _refuse_unknown(what: str, told: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(map(str, told.keys() - known)):
        raise Invalid(f"{what} has {unknown[0]!r}, which means nothing here; there are {', '.join(sorted(known))}.")
