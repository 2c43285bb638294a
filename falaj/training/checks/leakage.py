"""What a model could know of the test rows before it is tested: rows, entities and moments on both sides. What the columns give
away is in `giveaways`."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid
from falaj.statistics.significance import two_shares_chance
from falaj.training.checks.columns import Column, Table, joined
from falaj.training.checks.findings import Finding, Severity

MANY: Final = 0.01  # share of test rows from which on duplicates are a problem
TELLING: Final = 0.5  # a column with so many distinct values for its rows tells one row from another
_FINE: Final = 1e-3  # of a column's spread: rows that are as near as this are the same but for rounding
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)


def duplicates(train: Table, test: Table, target: str, apart: Sequence[str] = ()) -> Iterator[Finding]:
    """Test rows that stand in train, exactly and nearly. Columns `apart` (entities, moments) do not make a row another one."""
    names = [name for name in test if name in train and name != target and name not in apart]
    if not names:
        return
    both = [joined(train[name], test[name]) for name in names]
    split = len(next(iter(train.values())))
    telling = any(_tells(column) for column in both)
    exact = _hashed([column.codes() for column in both])
    same = np.isin(exact[split:], exact[:split])
    yield _duplicated(exact[:split], same, telling=telling, labels=_agreeing(train, test, target, exact, same))
    numbers = [column for column in both if column.kind != "category" and _tells(column)]
    if len(numbers) > 1:
        # By one number alone, rows are near each other all the time.
        other = ~same & (np.sum([~column.missing[split:] for column in numbers], axis=0) > 1)
        near = _near(both, split, _FINE) & other
        # Rows that are near by chance become a hundred times as many where ten times as much counts as near; copies do not.
        copies = int(near.sum()) >= max(2, 0.5 * int((_near(both, split, 10 * _FINE) & other).sum()))
        yield _nearly(int(near.sum()) if copies else 0, len(near))


def _near(both: Sequence[Column], split: int, width: float) -> NDArray[np.bool_]:
    """Test rows that share a cell with one of train. What lies on the border of one grid lies within a cell of the other."""
    found = np.zeros(len(both[0]) - split, dtype=bool)
    for offset in (0.0, 0.5):
        cells = _hashed([_cells(column, offset, width) for column in both])
        found |= np.isin(cells[split:], cells[:split])
    return found


def _duplicated(train: NDArray[np.uint64], same: NDArray[np.bool_], *, telling: bool, labels: str) -> Finding:
    share, count = float(same.mean()), int(same.sum())
    figures = {"share": share, "rows": float(count)}
    told = f"{count} of {len(same)} test rows ({share:.1%}) stand in train as well{labels}"
    if not count:
        sentence = f"none of {len(same)} test rows stands in train"
        return Finding(check="leakage.duplicates", severity="fine", sentence=sentence, figures=figures)
    severity: Severity = "problem" if share >= MANY else "warning"
    if not telling:
        # Without a column that tells rows apart they repeat by nature: as often as within train.
        _, often = np.unique(train, return_counts=True)
        repeated = int(often[often > 1].sum())
        natural = repeated / len(train)
        more = share - natural >= MANY and two_shares_chance(count, len(same), repeated, len(train)) < 0.001
        severity = "problem" if more else "note"
        told += f"; within train {natural:.1%} repeat" + ("" if more else ", so that is how these rows are")
        figures["natural"] = natural
    return Finding(check="leakage.duplicates", severity=severity, sentence=told, figures=figures)


def _agreeing(train: Table, test: Table, target: str, rows: NDArray[np.uint64], same: NDArray[np.bool_]) -> str:
    """Whether duplicates have the same target too."""
    if target not in train or target not in test or not same.any():
        return ""
    whole = _hashed([rows.view(np.int64), joined(train[target], test[target]).codes()])
    split = len(rows) - len(same)
    agreeing = int(np.isin(whole[split:], whole[:split]).sum())
    return f", {agreeing} of them with the same target"


def _nearly(count: int, rows: int) -> Finding:
    share = count / rows
    figures = {"share": share, "rows": float(count)}
    severity: Severity = "problem" if share >= MANY else "warning" if count else "fine"
    told = f"{count} more of {rows} test rows ({share:.1%}) differ from a row of train by rounding alone"
    told = told if count else "no test row is nearly one of train"
    return Finding(check="leakage.near", severity=severity, sentence=told, figures=figures)


def shared(train: Table, test: Table, names: Sequence[str], check: str, what: str) -> Finding:
    """`leakage.entities` and `leakage.keys`: values of these columns together that are on both sides."""
    _present(train, test, names, what)
    both = _hashed([joined(train[name], test[name]).codes() for name in names])
    split = len(train[names[0]])
    missing = np.all([test[name].missing for name in names], axis=0)
    there = np.isin(both[split:], both[:split]) & ~missing
    distinct, common = len(np.unique(both[split:][~missing])), len(np.unique(both[split:][there]))
    share = float(there.mean()) if len(there) else 0.0
    named = " and ".join(names)
    told = f"{common} of {distinct} values of {named} in test are in train, too ({share:.1%} of the test rows)"
    told = told if common else f"train and test have no {named} in common"
    severity: Severity = "problem" if common else "fine"
    return Finding(
        check=check, severity=severity, sentence=told, figures={"share": share, "common": float(common)}, column=named
    )


def times(train: Table, test: Table, name: str) -> Finding:
    """Train has to end before test begins: otherwise the model knows the future of what it is tested on."""
    _present(train, test, [name], "time")
    if "category" in (train[name].kind, test[name].kind):
        raise Invalid(f"{name!r} holds texts, which have no order in time: turn it into moments or numbers first")
    if not len(train[name].known) or not len(test[name].known):
        raise Invalid(f"{name!r} is missing in every row: there is no time to compare")
    begin = float(test[name].known.min())
    late = float((train[name].known >= begin).mean())
    severity: Severity = "problem" if late >= MANY else "warning" if late else "fine"
    told = f"{late:.1%} of the training rows are not earlier than the first test row, by {name}"
    told = told if late else f"train ends before test begins, by {name}"
    return Finding(check="leakage.time", severity=severity, sentence=told, figures={"share": late}, column=name)


def _present(train: Table, test: Table, names: Sequence[str], what: str) -> None:
    for side, columns in (("train", train), ("test", test)):
        if gone := [name for name in names if name not in columns]:
            raise Invalid(f"{what} is to be compared by {', '.join(gone)}, which {side} has not; it has {', '.join(columns)}")


def _tells(column: Column) -> bool:
    return len(column.known) > 0 and len(np.unique(column.known)) >= TELLING * len(column.known)


def _cells(column: Column, offset: float, width: float) -> NDArray[np.int64]:
    if column.kind == "category":
        texts = np.array([" ".join(str(text).lower().split()) for text in column.values], dtype=object)
        return Column(name=column.name, kind="category", values=texts, missing=column.missing).codes()
    width *= float(np.std(np.sort(column.known))) if len(column.known) else 0.0  # sorted: sums depend on the order
    if not width:
        return column.codes()
    found = np.floor(np.where(column.missing, 0.0, column.values) / width + offset).astype(np.int64)
    found[column.missing] = np.iinfo(np.int64).min
    return found


def _hashed(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """64 bits for the whole row."""
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            mixed = (found ^ column.view(np.uint64)) * _MULTIPLIER
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            found = mixed ^ (mixed >> np.uint64(32))
    return found
