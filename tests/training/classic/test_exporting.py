"""ONNX of what was fitted, held against it on real rows."""

import importlib
import json
import re
from importlib.metadata import version

import numpy as np
import onnxruntime
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier, XGBRegressor

from falaj.training import packages
from falaj.training.classic import NotEqual, export, fit, parity
from tests.training.classic.test_fitting import Told

TUMOURS = load_breast_cancer(return_X_y=True)
WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


class Sent(Told):
    def file(self, path, name):
        self.files[name] = path.read_bytes()


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), TUMOURS),
        (LGBMClassifier(n_estimators=20, verbose=-1), WINE),
        (XGBClassifier(n_estimators=20), TUMOURS),
        (HistGradientBoostingClassifier(max_iter=10), TUMOURS),
        (make_pipeline(StandardScaler(), LGBMClassifier(n_estimators=20, verbose=-1)), TUMOURS),
        (XGBRegressor(n_estimators=20), DIABETES),
        (RandomForestRegressor(5), DIABETES),
        (LinearSVC(), (TUMOURS[0] / TUMOURS[0].max(axis=0), TUMOURS[1])),
    ],
    ids=lambda given: getattr(type(given), "__name__", "") if not isinstance(given, tuple) else "",
)
def test_answers_are_equal_and_the_largest_difference_is_told(model, data):
    run = Sent()
    made = export(fit(model, *data, folds=0, early_stopping=5, threads=1), run=run)
    assert made.apart <= 1e-5
    assert made.rows == len(data[0])
    assert run.files["model/model.onnx"] == made.content
    (tensor,) = json.loads(json.loads(run.files["model/MLmodel"])["signature"]["inputs"])
    assert (tensor["name"], tensor["tensor-spec"]) == ("X", {"dtype": "float32", "shape": [-1, data[0].shape[1]]})
    assert run.seen["onnx/apart"][0] == made.apart
    assert f"on {made.rows} rows" in run.said["falaj.training.onnx"]


def test_beside_the_model_stands_what_it_was_made_with_in_exact_versions():
    run = Sent()
    made = export(fit(LGBMClassifier(n_estimators=5, verbose=-1), *WINE, folds=0, threads=1), run=run)
    lines = run.files["model/requirements.txt"].decode().splitlines()
    assert run.files["model/requirements.txt"].decode() == made.requirements == packages.imported()
    assert {f"{name}=={version(name)}" for name in ("lightgbm", "numpy", "scikit-learn")} <= set(lines)
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]+==\S+", line) for line in lines)
    assert "falaj" not in made.requirements


def test_of_packages_that_share_a_folder_only_those_count_of_which_something_is_imported(tmp_path, monkeypatch):
    for name in ("seen", "unseen"):
        (tmp_path / "shared").mkdir(exist_ok=True)
        (tmp_path / "shared" / f"{name}.py").write_text("")
        (info := tmp_path / f"shared_{name}-1.0.dist-info").mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: shared-{name}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"shared/{name}.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("shared.seen")
    assert re.findall("^shared.*", packages.imported(), re.MULTILINE) == ["shared-seen==1.0"]


def test_an_early_stopped_model_is_exported_without_the_rounds_after_its_best():
    fitted = fit(XGBClassifier(n_estimators=80, learning_rate=0.5), *TUMOURS, folds=0, early_stopping=8, threads=1)
    session = onnxruntime.InferenceSession(export(fitted).content)
    found = session.run(None, {"X": TUMOURS[0].astype(np.float32)})[1]
    whole = fitted.model.predict_proba(TUMOURS[0], iteration_range=(0, fitted.rounds + 8))
    assert np.abs(found - fitted.predict_proba(TUMOURS[0])).max() < 1e-5
    assert np.abs(found - whole).max() > 1e-3


def test_a_row_that_rounding_puts_on_the_other_side_of_a_branch_is_found():
    """Two values of this column differ in the last bit, and a tree tells them apart; single precision cannot."""
    pipeline = make_pipeline(StandardScaler(), LGBMRegressor(n_estimators=20, verbose=-1))
    with pytest.raises(NotEqual, match="answers otherwise on 1 of 442 real rows"):
        export(fit(pipeline, *DIABETES, folds=0, early_stopping=5, threads=1))


def test_a_form_that_answers_otherwise_is_refused_with_the_distance(monkeypatch):
    fitted = fit(XGBClassifier(n_estimators=5), *TUMOURS, folds=0, early_stopping=None, threads=1)
    truly = parity.answers

    def shifted(content, feeds):
        labels, probabilities = truly(content, feeds)
        return [labels, probabilities + np.array([[-0.01, 0.01]], dtype=np.float32)]

    monkeypatch.setattr(parity, "answers", shifted)
    with pytest.raises(NotEqual, match=r"otherwise on 569 of 569 real rows, by up to 0\.01, and 0\.0001 is allowed") as refused:
        export(fitted)
    assert refused.value.apart == pytest.approx(0.01, abs=1e-3)
    assert export(fitted, tolerance=0.02).apart == pytest.approx(0.01, abs=1e-3)


def test_a_label_that_differs_where_the_model_is_sure_is_refused(monkeypatch):
    fitted = fit(XGBClassifier(n_estimators=5), *TUMOURS, folds=0, early_stopping=None, threads=1)
    truly = parity.answers

    def flipped(content, feeds):
        labels, probabilities = truly(content, feeds)
        return [1 - labels, probabilities]

    monkeypatch.setattr(parity, "answers", flipped)
    with pytest.raises(NotEqual):
        export(fitted, tolerance=0.1)


def test_what_cannot_be_converted_says_why():
    strange = make_pipeline(FunctionTransformer(np.sin), LogisticRegression())
    with pytest.raises(NotEqual, match="this Pipeline cannot become ONNX: "):
        export(fit(strange, *TUMOURS, folds=0, threads=1))
