"""Whether a version is better than the champion, in a step: both answer the same rows, and what a few rows make look better is
told from what is."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid, NotFound
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.pipelines.kinds import ModelVersion
from falaj.registry.operations.promotions import RESOLVE, Resolve
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.registry.operations.words import BROUGHT_OUT
from falaj.statistics.noninferiority import FEWEST, of_differences, of_shares

ALIAS: Final = "champion"


def against_champion(
    model: ModelVersion,
    measure: Callable[[ModelVersion], Mapping[str, Any]],
    alias: str = ALIAS,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """In a step: the figures of a version and of the champion on the same rows. `measure` gives for each figure, of which more
    is better, a value for every row, such as `said == truth`; the figure is their mean.

    `gain` is how much more it is than the champion's, and `surely` how much more it is at least, with this `confidence`; where
    there is no champion yet, there is no gain, and surely it is all it is. `told` are the figures for people, in four digits.
    `is_new` where it is not the champion itself, nor was brought out
    before, as it may be once the same rows were trained on before.
    """
    values = _values(measure(model))
    before = champion_of(model.model, alias)
    known = {} if before is None else values if before == model else _values(measure(before))
    figures, were = ({name: float(one.mean()) for name, one in some.items()} for some in (values, known))
    surely = {
        name: _at_least(name, known[name], one, confidence) if name in known else figures[name] for name, one in values.items()
    }
    return {
        "figures": figures,
        "told": {name: f"{one:.4g}" for name, one in figures.items()},
        "champion": were or None,
        "gain": {name: one - were[name] if name in were else None for name, one in figures.items()},
        "surely": surely,
        "is_new": before != model and not _was_brought_out(model),
    }


def champion_of(model: str, alias: str = ALIAS) -> ModelVersion | None:
    with client_of_environment() as client:
        try:
            found = client.call(RESOLVE, Resolve(project=project_of_environment(""), model=model, alias=alias))
        except NotFound:
            return None
    return ModelVersion(model=model, version=found.version)


def _was_brought_out(model: ModelVersion) -> bool:
    """Whatever came of that: somebody refused it, or it went back."""
    with client_of_environment() as client:
        one = OneVersion(project=project_of_environment(""), model=model.model, version=model.version)
        return any(tag.key == BROUGHT_OUT for tag in client.call(SHOW_VERSION, one).tags)


def _values(measured: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    values = {name: np.asarray(one) for name, one in measured.items()}
    for name, one in values.items():
        if one.ndim != 1 or len(one) < FEWEST:
            raise Invalid(
                f"{name} is no list of values, one for each row; give them, such as said == truth: the figure is their mean."
            )
    return values


def _at_least(name: str, before: NDArray[Any], now: NDArray[Any], confidence: float) -> float:
    """By the test of the gate `quality`."""
    if len(before) != len(now):
        raise Invalid(
            f"{name} has {len(now)} values of the version and {len(before)} of the champion; both are asked the same rows."
        )
    if now.dtype == np.bool_ and before.dtype == np.bool_:
        worse, better = int((before & ~now).sum()), int((now & ~before).sum())
        return -of_shares(len(now), worse, better, margin=0.0, confidence=confidence).high
    drops = before.astype(np.float64) - now.astype(np.float64)
    found = of_differences(len(drops), float(drops.sum()), float((drops**2).sum()), margin=0.0, confidence=confidence)
    return -found.high
