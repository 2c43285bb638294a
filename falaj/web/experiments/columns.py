"""The columns of the runs table: which there are, which the address asks for, and how a header orders by one."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from falaj.base.values import value
from falaj.training.profiling.names import FIGURES

METRICS_AT_FIRST: Final = 3
PARAMS_AT_FIRST: Final = 4
MOST: Final = 40
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words in the names of metrics of which less is better.
_LESS_IS_BETTER: Final = re.compile(
    r"loss|err(or)?|rmse|mae|mse|mape|perplexity|ppl|wer|cer|fid|brier|deviance|latency|seconds|_ms$|time", re.IGNORECASE
)


def is_own_tag(name: str) -> bool:
    """Whether MLflow's client wrote it for its own use."""
    return name.startswith("mlflow.")


def is_system(name: str) -> bool:
    """Whether it measures the machine and not the model."""
    return name.startswith(("system/", FIGURES))


@value
class Column:
    """`kind` is how MLflow's language calls it, and so does the address: `metrics.auc`, `params.depth`, `tags.team`."""

    kind: Literal["metrics", "params", "tags", "attributes"]
    name: str

    @property
    def key(self) -> str:
        return f"{self.kind}.{self.name}"

    @property
    def words(self) -> str | None:
        """As a filter or an order names it; None where it cannot be named."""
        if _PLAIN.fullmatch(self.name):
            return self.key
        if "`" not in self.name:
            return f"{self.kind}.`{self.name}`"
        return f'{self.kind}."{self.name}"' if '"' not in self.name else None

    @property
    def is_number(self) -> bool:
        return self.kind == "metrics"

    @property
    def less_is_better(self) -> bool:
        return bool(_LESS_IS_BETTER.search(self.name))


STARTED: Final = Column(kind="attributes", name="start_time")
RUN_NAME: Final = Column(kind="attributes", name="run_name")
STATUS: Final = Column(kind="attributes", name="status")


@value
class Header:
    """A column as the table's head shows it. `order` is what a click asks for; `sorted` is as `aria-sort` says it."""

    column: Column
    order: str
    sorted: Literal["ascending", "descending", "none"]


def column_of(key: str) -> Column | None:
    """A column as an address names it; None for what is none."""
    kind, dot, name = key.partition(".")
    if not dot or not name or len(name) > 250 or kind not in ("metrics", "params", "tags"):
        return None
    return Column(kind=kind, name=name)  # type: ignore[arg-type]


def chosen(asked: Iterable[str]) -> list[Column]:
    found = [column for key in dict.fromkeys(asked) if (column := column_of(key)) is not None]
    return found[:MOST]


def worth_seeing(runs: Sequence[Any]) -> list[Column]:
    """Where nobody chose: the metrics that most runs have, and the parameters in which they differ."""
    metrics = Counter(metric.key for run in runs for metric in run.metrics if not is_system(metric.key))
    values: dict[str, set[str]] = {}
    params: Counter[str] = Counter()
    for run in runs:
        for param in run.params:
            params[param.key] += 1
            values.setdefault(param.key, set()).add(param.value)
    differing = [key for key, _ in params.most_common() if len(values[key]) > 1 or len(runs) == 1]
    named = sorted(key for key, _ in metrics.most_common(METRICS_AT_FIRST))
    return [Column(kind="metrics", name=name) for name in named] + [
        Column(kind="params", name=name) for name in differing[:PARAMS_AT_FIRST]
    ]


def header(column: Column, order: str) -> Header:
    """The first click brings the best runs, or the newest, to the top; the next one turns the order around."""
    if (words := column.words) is None:
        return Header(column=column, order="", sorted="none")
    down, up = f"{words} DESC", f"{words} ASC"
    first, second = (up, down) if column.less_is_better or column in (RUN_NAME, STATUS) else (down, up)
    if column == STARTED:
        first, second = down, up
        order = order or down  # as runs come where nobody asks for an order
    state = {down: "descending", up: "ascending"}.get(order, "none")
    return Header(column=column, order=second if order == first else first, sorted=state)  # type: ignore[arg-type]


def by_kind(keys: Any) -> dict[str, list[Column]]:
    """What runs have, as one may choose it; MLflow's own tags last, system metrics after the others."""
    if keys is None:
        return {"metrics": [], "params": [], "tags": []}
    return {
        "metrics": [
            Column(kind="metrics", name=name) for name in sorted(keys.metrics, key=lambda name: (is_system(name), name))
        ],
        "params": [Column(kind="params", name=name) for name in sorted(keys.params)],
        "tags": [Column(kind="tags", name=name) for name in sorted(keys.tags, key=lambda name: (is_own_tag(name), name))],
    }
