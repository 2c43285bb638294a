"""Trees made smaller and faster: other forms answer the same, fewer trees nearly the same."""

import functools

import lightgbm
import numpy as np
import pytest
import xgboost
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingClassifier, RandomForestClassifier

from falaj.optimisation.making.ensembles import leaves_of
from falaj.optimisation.making.lightgbm_ensembles import read_lightgbm
from falaj.optimisation.making.parity import parity
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.running import answers, engine_of
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.values import CannotBeMade, Made, Sample
from tests.optimisation.making.models import booster, onnx_made, table, tree_material


def strange_rows(rows):
    """With holes, zeros, values nobody has seen, and two of a category at once."""
    random = np.random.default_rng(7)
    made = np.where(random.random(rows.shape) < 0.1, np.nan, rows)
    made = np.where(random.random(rows.shape) < 0.1, 0.0, made)
    made[0], made[1], made[2], made[3, 5:] = np.inf, -np.inf, 1e9, 1.0
    return made


def as_good(made, form, dtype=np.float64):
    rows = table()[0]
    for asked in (rows, strange_rows(rows), rows[:1]):
        held = parity(made, form, Sample(inputs=(asked.astype(dtype),)), tolerance=1e-5)
        assert held.holds, held


@pytest.mark.parametrize(
    ("objective", "leaves", "categories"),
    [
        ("binary", 15, ()),
        ("binary", 50, (4,)),
        ("regression", 31, (4,)),
        ("poisson", 8, ()),
        ("multiclass", 8, ()),
        ("multiclassova", 8, (4,)),
    ],
)
def test_tables_of_bits_answer_as_lightgbm_does(objective, leaves, categories):
    made = booster(objective, leaves, 20, categories)
    as_good(made, STEPS["trees-masks"](made, "", tree_material()))


@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_trees_in_onnx_answer_as_lightgbm_does(objective):
    made = booster(objective, 8, 20)
    form = STEPS["trees-onnx"](made, "", tree_material())
    as_good(made, form)
    assert profile_of(form).family == "trees"
    assert (profile_of(form).trees, profile_of(form).leaves) == (profile_of(made).trees, profile_of(made).leaves)


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "binary:logistic", "base_score": 0.3},
        {"objective": "multi:softprob", "num_class": 3},
        {"objective": "multi:softmax", "num_class": 3},
        {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.3},
    ],
    ids=str,
)
def test_xgboosts_trees_answer_the_same_in_other_forms(settings):
    rows, truth = table()
    aims = truth + (rows[:, 4] > 5) if "num_class" in settings else truth
    data = xgboost.DMatrix(rows[:1000].astype(np.float32), aims[:1000])
    raw = xgboost.train({"max_depth": 4, "nthread": 1, **settings}, data, 12).save_raw("json")
    made = Made(runtime="xgboost", file="model.json", files={"model.json": bytes(raw)})
    for step in ("trees-onnx", "trees-masks"):
        as_good(made, STEPS[step](made, "", tree_material(np.float32)), np.float32)
    fewer = STEPS["trees"](made, "6", tree_material(np.float32))
    assert profile_of(fewer).trees == 6
    assert engine_of(fewer).outputs == engine_of(made).outputs


def test_columns_of_one_category_share_a_table_and_rows_that_break_it_are_still_answered():
    made = booster("binary", 15, 30, hidden=(4,))
    form = STEPS["trees-masks"](made, "", tree_material())
    assert profile_of(form).operators["If"] == 1
    both = table()[0][:64].copy()
    both[:, 5:] = 1.0
    np.testing.assert_allclose(*(answers(one, Sample(inputs=(both,)))[0] for one in (made, form)), rtol=1e-5)


def test_fewer_trees_say_nearly_what_all_of_them_said():
    made, sample = booster("binary", 15, 60), tree_material()
    fewer = STEPS["trees"](made, "20", sample)
    cut = read_lightgbm(fewer)
    assert len(cut.trees) == 20
    assert fewer.size < made.size / 2
    assert "20 of 60 trees" in fewer.notes[-1]
    rows = sample.selection
    said, kept = answers(made, rows)[0], answers(fewer, rows)[0]
    assert ((said > 0.5) == (kept > 0.5)).mean() > 0.95
    first = read_lightgbm(made).trees[:20]
    leaves = leaves_of(first, rows.inputs[0])
    untouched = 1 / (1 + np.exp(-sum(tree.leaves[leaves[:, number], 0] for number, tree in enumerate(first))))
    assert np.abs(said - kept).mean() < np.abs(said - untouched).mean()


ONNX_TREES = ["boosted", "boosted-3", "forest-3", "extra", "lightgbm"]


@functools.cache
def onnx_trees(name):
    rows, truth = np.nan_to_num(table()[0][:600]).astype(np.float32), table()[1][:600]
    if name == "lightgbm":
        native = lightgbm.Booster(model_str=booster("binary", 8, 20).content.decode())
        types = [("input", FloatTensorType([None, rows.shape[1]]))]
        return onnx_made(convert_lightgbm(native, initial_types=types, zipmap=False, target_opset=15))
    kind = {"boosted": GradientBoostingClassifier, "forest": RandomForestClassifier, "extra": ExtraTreesRegressor}
    fitted = kind[name.partition("-")[0]](n_estimators=15, max_depth=4, random_state=0)
    fitted.fit(rows, truth + (rows[:, 4] > 5) if name.endswith("3") else truth)
    options = {} if name == "extra" else {"zipmap": False}
    return onnx_made(to_onnx(fitted, rows[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3}))


@pytest.mark.parametrize("name", ONNX_TREES)
def test_onnx_trees_answer_the_same_as_tables_of_bits(name):
    made = onnx_trees(name)
    rows = np.nan_to_num(table()[0]).astype(np.float32)
    form = STEPS["trees-masks"](made, "", tree_material(np.float32))
    held = parity(made, form, Sample(inputs=(rows,)), tolerance=1e-5)
    assert held.holds, held


@pytest.mark.parametrize("name", ONNX_TREES)
def test_fewer_onnx_trees_say_nearly_what_all_of_them_said(name):
    made = onnx_trees(name)
    fewer = STEPS["trees"](made, "9", tree_material(np.float32))
    assert profile_of(fewer).trees <= 9
    rows = Sample(inputs=(np.nan_to_num(table()[0][600:]).astype(np.float32),))
    assert parity(made, fewer, rows, tolerance=0.3).agreeing > 0.9


@pytest.mark.parametrize(("step", "argument", "reason"), [("trees", "60", "from 1 to 59"), ("trees", "many", "from 1 to 59")])
def test_a_number_of_trees_that_cannot_be_kept_is_refused(step, argument, reason):
    with pytest.raises(CannotBeMade, match=reason):
        STEPS[step](booster("binary", 15, 60), argument, tree_material())


def test_trees_that_are_too_large_for_a_word_are_refused():
    with pytest.raises(CannotBeMade, match="64 bits"):
        STEPS["trees-masks"](booster("binary", 80, 5), "", tree_material())


def test_trees_that_onnx_cannot_say_are_refused_by_name():
    with pytest.raises(CannotBeMade, match="categories"):
        STEPS["trees-onnx"](booster("regression", 31, 20, (4,)), "", tree_material())
