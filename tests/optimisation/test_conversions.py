"""A model that only Python can load, on its way to being optimised: converted, and compared on rows of the very dataset."""

import json
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sqlalchemy import select

from falaj.base.errors import Conflict, Invalid
from falaj.datasets.operations import classes, writing
from falaj.governance.identity import operations as identity
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.operations.optimisations import PLAN_OPTIMISATION, Optimisation, PlanOptimisation
from falaj.optimisation.store.tables import optimisations
from tests.datasets.platform import arrow
from tests.optimisation.making.models import conv, conv_material
from tests.serving.control.platform import PROJECT, Platform

FAR = 500_000.0  # where no made-up number lies
AGES = np.array([*range(37), FAR, FAR + 1, FAR + 2], dtype=float)
INPUTS = json.dumps([{"type": "double", "name": name} for name in ("age", "income")])
MLMODEL = f"""
flavors:
  sklearn: {{pickled_model: model.pkl, serialization_format: cloudpickle}}
signature:
  inputs: '{INPUTS}'
"""
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def files(*, odd: bool = False) -> dict[str, bytes]:
    """With `odd`, it says something else to three of the rows than its numbers do."""
    rows = np.random.default_rng(0).normal(40, 10, (50, 2))
    model = LinearRegression().fit(rows, rows @ [2.0, 3.0])
    if odd:
        weights = model.coef_
        model.predict = lambda asked: np.asarray(asked) @ weights + np.where(np.asarray(asked)[:, 0] >= FAR, FAR, 0)
    return {"MLmodel": MLMODEL.encode(), "model.pkl": cloudpickle.dumps(model)}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Platform(Path(tmp_path_factory.mktemp("platform")))
    write = made.call(writing.OPEN_WRITE, writing.OpenWrite(project=PROJECT, dataset="people", mode="append", create=True))
    place = {"project": PROJECT, "dataset": "people", "write": write.id}
    table = arrow(age=AGES, income=AGES / 3, spends=AGES * 3, name=["somebody"] * len(AGES))
    made.call(writing.WRITE_PART, writing.WritePart(**place, piece=1), data=table)
    made.call(writing.COMMIT_WRITE, writing.CommitWrite(**place, pieces=1))
    yield made
    made.close()


def planned(platform: Platform, model: str, token: str = "") -> Optimisation:
    request = PlanOptimisation(project=PROJECT, model=model, version=1, on="people", label="spends")
    return platform.call(PLAN_OPTIMISATION, request, token)


@pytest.mark.heavy
def test_a_conversion_is_held_against_the_original_on_rows_of_the_dataset(platform: Platform) -> None:
    platform.register("plain", files=files())
    found = planned(platform, "plain")
    first, second = found.remarks
    assert first.startswith("Converted from scikit-learn LinearRegression (model.pkl), as its own code says; on 40 real rows")
    assert first.endswith(" at most, 0.001 is allowed.")
    assert second.startswith("ONNX opset 18, 1 operator: LinearRegressor 1")
    pinned = platform.app.database.read(lambda work: work.execute(select(optimisations.c.pinned)).scalars().all())
    assert [f"Converted from {json.loads(one)['converted']}." for one in pinned] == [first]
    assert found.runtime == "onnx"


def test_what_no_made_up_row_shows_is_refused_with_the_numbers(platform: Platform) -> None:
    platform.register("odd", files=files(odd=True))
    with pytest.raises(
        Conflict, match=r"away from the original's on 40 real rows; 0\.001 is allowed, and 3 of them are beyond"
    ):
        planned(platform, "odd")


def test_what_was_deployed_before_is_compared_on_those_rows_all_the_same(platform: Platform) -> None:
    platform.register("odd-and-deployed", files=files(odd=True))
    platform.deploy(1, "odd", model="odd-and-deployed")
    with pytest.raises(Conflict, match="away from the original's on 40 real rows"):
        planned(platform, "odd-and-deployed")


@pytest.mark.heavy
def test_columns_that_somebody_may_not_see_are_not_shown_to_the_model_either(platform: Platform) -> None:
    platform.register("hidden", files=files(odd=True))
    hidden = (classes.Classified(column="income", kind="sensitive"),)
    platform.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project=PROJECT, dataset="people", columns=hidden))
    narrow = identity.CreateToken(label="without dataset.personal", scopes=("read", "write", "deploy"))
    token = platform.call(identity.CREATE_TOKEN, narrow).token
    assert "on 64 sample rows" in planned(platform, "hidden", token).remarks[0]


@pytest.mark.parametrize(("step", "shown"), [("openvino", "OpenVINO IR"), ("litert", "a LiteRT model")])
def test_a_form_that_has_no_candidates_is_refused_with_what_to_register(platform: Platform, step: str, shown: str) -> None:
    form = STEPS[step](conv(), "", conv_material())
    platform.register(f"already-{step}", files=dict(form.files))
    refused = f"is served as {shown}, and candidates are planned of ONNX, LightGBM and XGBoost. Register the ONNX model"
    with pytest.raises(Invalid, match=refused):
        planned(platform, f"already-{step}")
    asked = PlanOptimisation(project=PROJECT, model=f"already-{step}", version=1, on="people", only=("settings:threads=2",))
    assert platform.call(PLAN_OPTIMISATION, asked).runtime == step


def test_a_student_of_another_form_is_refused(platform: Platform) -> None:
    form = STEPS["openvino"](conv(), "", conv_material())
    platform.register("pictures", files=dict(conv().files))
    platform.register("pupil", files=dict(form.files))
    asked = PlanOptimisation(project=PROJECT, model="pictures", version=1, on="people", student="pupil", student_version=1)
    with pytest.raises(Invalid, match="The student 'pupil' is served as OpenVINO IR: only ONNX can be taught"):
        platform.call(PLAN_OPTIMISATION, asked)
