"""A model as ONNX, held against the original on real rows: what is not equal is not given out."""

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.errors import Invalid, PermanentError
from falaj.base.values import value
from falaj.training import packages
from falaj.training.classic import converting, describing, parity, rows, scores
from falaj.training.classic.fitting import Fitted
from falaj.training.classic.scores import Predictions
from falaj.training.run_files import opened
from falaj.training.telling import Run

TOLERANCE: Final = 1e-4
FOLDER: Final = "model"
FILE: Final = "model.onnx"
Distances = NDArray[np.float64]


class NotEqual(PermanentError):
    """The ONNX form answers otherwise than the model, or could not be made. `apart` is by how much."""

    def __init__(self, message: str, apart: float) -> None:
        super().__init__(message)
        self.apart = apart


@value
class Exported:
    """ONNX whose answers are at most `apart` from the model's on `rows` real rows. Numbers above 1 are compared relatively."""

    content: bytes
    apart: float
    tolerance: float
    rows: int
    words: str  # how its inputs are to be given
    description: str  # of its inputs, for MLflow and the registry
    requirements: str  # the packages that it was made with

    def save(self, folder: Path) -> Path:
        """`model.onnx`, `MLmodel` and `requirements.txt`: together, a model of MLflow's."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_bytes(self.content)
        (folder / describing.FILE).write_text(self.description)
        (folder / packages.FILE).write_text(self.requirements)
        return folder


def export(fitted: Fitted, *, sample: Any = None, tolerance: float = TOLERANCE, run: Run | None = None) -> Exported:
    """Make the folder `model` of the run, with an ONNX model: `falaj model register NAME RUN model` makes a version of it that
    can be served.

    It is compared on `sample`, or on up to 1,000 rows of those it was fitted on. Raises `NotEqual` where no way of converting
    it keeps its answers within `tolerance`.
    """
    table = fitted.sample if sample is None else sample
    made = _first_equal(fitted.model, table, tolerance)
    with opened(run) as (own, folder):
        own.figures({"onnx/apart": made.apart, "onnx/rows": made.rows})
        own.words({"falaj.training.onnx": f"Equal to the model within {made.apart:.2g} on {made.rows} rows ({made.words})."})
        made.save(folder)
        for name in (FILE, describing.FILE, packages.FILE):
            own.file(folder / name, f"{FOLDER}/{name}")
    return made


def _first_equal(model: Any, table: Any, tolerance: float) -> Exported:
    if not (count := rows.count(table)):
        raise Invalid("there is no row to compare ONNX and the model on")
    wanted, nearest, problem = scores.predicted(model, table), np.full(count, np.inf), ""
    for way in converting.ways(table):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of converters, about each other
                content = converting.onnx_of(model, way)
                found = parity.answers(content, way.feeds)
        except ImportError as error:
            raise Invalid(f"{error.name} is not installed where it was trained: pip install 'falaj[convert]'") from error
        except Exception as error:  # noqa: BLE001 - converters have errors of many kinds
            problem = problem or _first_cause(error)
            continue
        distances = _apart(wanted, found, tolerance)
        if distances.max() <= tolerance:
            return Exported(
                content=content,
                apart=float(distances.max()),
                tolerance=tolerance,
                rows=count,
                words=way.words,
                description=describing.describe(FILE, table, way.feeds),
                requirements=packages.imported(),
            )
        nearest = min(nearest, distances, key=lambda one: float(one.max()))
    name, apart = type(model).__name__, float(nearest.max())
    if problem and apart == np.inf:
        raise NotEqual(f"this {name} cannot become ONNX: {problem}", apart)
    raise NotEqual(
        f"the ONNX form of this {name} answers otherwise on {int((nearest > tolerance).sum())} of {count} real rows, by up to "
        f"{apart:.3g}, and {tolerance:g} is allowed: give a larger tolerance if that will do, or log the model itself",
        apart,
    )


def _apart(wanted: Predictions, found: list[Any], tolerance: float) -> Distances:
    """Of each row, the largest distance of probabilities or numbers; infinite where another label is given, unless the model
    is between two."""
    said, rows = np.asarray(found[0]).ravel(), len(wanted.labels)
    if wanted.probabilities is None and wanted.classes is None:
        return _distances(wanted.labels.reshape(rows, -1), np.asarray(found[0]).reshape(rows, -1))
    other = said.astype(str) != wanted.labels.ravel().astype(str)
    if wanted.probabilities is None:
        return np.where(other, np.inf, 0.0)
    shares = np.asarray(found[1], dtype=np.float64).reshape(rows, -1)
    if shares.shape[1] == 1:  # of the second class alone
        shares = np.column_stack([1 - shares, shares])
    two = np.sort(wanted.probabilities, axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > 2 * tolerance
    return np.where(other & clear, np.inf, _distances(wanted.probabilities, shares))


def _distances(first: NDArray[Any], second: NDArray[Any]) -> Distances:
    if first.shape != second.shape:
        return np.full(len(first), np.inf)
    left, right = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = np.abs(left - right) / np.maximum(np.abs(left), 1.0)
    far[(left == right) | (np.isnan(left) & np.isnan(right))] = 0.0
    found: Distances = np.nan_to_num(far, nan=np.inf).max(axis=1)
    return found


def _first_cause(error: BaseException) -> str:
    """What went wrong at first; what is raised at last may hold half of the model."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:600]}"
