"""A file that defines feature views: TOML or YAML for people, read into the requests that apply them."""

import tomllib
from pathlib import Path
from typing import Any, Final, cast

import yaml

from falaj.base.clock import SECOND
from falaj.base.errors import Invalid
from falaj.cli.amounts import seconds_of
from falaj.cli.terminal import read_text
from falaj.datasets.operations.features import ApplyView
from falaj.tables.joining.views import Feature, Function, Key

_VIEW: Final = {"name", "dataset", "keys", "event", "known", "features", "time_to_live", "description"}
_FEATURE: Final = {"column", "function", "period"}
_NEEDED: Final = ("name", "dataset", "keys", "event", "features")
_YAML: Final = (".yaml", ".yml")


def views_in(file: str, project: str) -> list[ApplyView]:
    """Raises `Invalid` for what is misspelled, by its name and place."""
    told = _read(file)
    _refuse_unknown(file, told, {"view"})
    views = told.get("view")
    if not isinstance(views, list) or not views or not all(isinstance(one, dict) for one in views):
        raise Invalid(f"{file} defines no views: write each as a table of its own, [[view]], or in YAML in a list `view`.")
    return [_view(one, project) for one in views]


def _read(file: str) -> dict[str, Any]:
    text = read_text(file)
    try:
        told = yaml.safe_load(text) if Path(file).suffix.lower() in _YAML else tomllib.loads(text)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    if not isinstance(told, dict):
        raise Invalid(f"{file} says nothing: define views in it.")
    return told


def _view(told: dict[str, Any], project: str) -> ApplyView:
    what = f"view {told.get('name', '?')!r}"
    _refuse_unknown(what, told, _VIEW)
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
        dataset=told["dataset"],
        keys=_keys(what, told["keys"]),
        event=told["event"],
        known=told.get("known", ""),
        features=tuple(_feature(what, str(name), one) for name, one in features.items()),
        time_to_live=_microseconds(told["time_to_live"]) if "time_to_live" in told else None,
        description=told.get("description", ""),
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


def _refuse_unknown(what: str, told: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(map(str, told.keys() - known)):
        raise Invalid(f"{what} has {unknown[0]!r}, which means nothing here; there are {', '.join(sorted(known))}.")
