"""Trees as LightGBM and XGBoost keep them: every kind of them loads, and none that leads outside of itself does."""

import json

import lightgbm
import numpy as np
import pytest
import xgboost

from falaj.runtimes.engine import Placement
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.lightgbm_files import checked as lightgbm_checked
from falaj.runtimes.loading import load
from falaj.runtimes.xgboost_files import checked as xgboost_checked
from tests.runtimes.models import ROWS, TRUTH, files, lightgbm_booster, xgboost_booster

GROUPS = np.column_stack([ROWS.astype(np.float64), np.random.default_rng(1).integers(0, 40, len(ROWS))])
SETTINGS = {"verbose": -1, "num_leaves": 8, "num_threads": 1, "min_data_in_leaf": 2, "min_data_per_group": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "regression"},
        {"objective": "regression", "linear_tree": True},
        {"objective": "binary", "boosting": "dart"},
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"objective": "poisson"},
        {"objective": "multiclassova", "num_class": 2},
    ],
    ids=str,
)
def test_every_kind_of_lightgbm_model_answers_as_lightgbm(settings):
    truth = TRUTH + (GROUPS[:, 6] > 20) if settings["objective"] in ("regression", "poisson") else TRUTH
    categories = [] if "linear_tree" in settings else [6]
    data = lightgbm.Dataset(GROUPS, truth, categorical_feature=categories, params={"verbose": -1})
    booster = lightgbm.train({**SETTINGS, **settings}, data, 5)
    engine = load(files("lightgbm", "m", m=booster.model_to_string().encode()), Placement())
    for rows in (GROUPS, GROUPS[:1]):
        np.testing.assert_allclose(engine.run([rows])[0], booster.predict(rows), rtol=1e-12)
    holes = np.where(np.random.default_rng(2).random(GROUPS.shape) < 0.3, np.nan, GROUPS)
    np.testing.assert_allclose(engine.run([holes])[0], booster.predict(holes), rtol=1e-12)


def changed(text, name, place, number):
    """The first tree's list `name`, with another number at one place."""
    before, equals, rest = text.partition(f"\n{name}=")
    numbers, line, after = rest.partition("\n")
    listed = numbers.split()
    listed[place] = str(number).rjust(len(listed[place]))  # as long as before where it can be: sizes stay right
    made = " ".join(listed)
    sizes = before.partition("tree_sizes=")[2].split(" ")[0]
    grown = before.replace(f"tree_sizes={sizes} ", f"tree_sizes={int(sizes) + len(made) - len(numbers)} ")
    return grown + equals + made + line + after


@pytest.mark.parametrize(
    ("name", "place", "number", "reason"),
    [
        ("left_child", 0, 0, "its own ancestor"),
        ("right_child", 2, 1, "its own ancestor"),
        ("left_child", 0, 7, "does not exist"),
        ("right_child", 0, -9, "does not exist"),
        ("left_child", 0, 1.5, "does not exist"),
        ("split_feature", 0, 6, "a feature that does not exist"),
        ("split_feature", 0, -1, "a feature that does not exist"),
        ("decision_type", 0, 3, "categories that do not exist"),
        ("decision_type", 0, 99, "unknown type"),
        ("leaf_value", 0, "x", "not a list of numbers"),
        ("leaf_weight", 0, "~", "not a list of numbers"),
        ("leaf_count", 0, "nan", "not a list of counts"),
    ],
)
def test_a_lightgbm_tree_that_leads_outside_of_itself_is_refused(name, place, number, reason):
    text = lightgbm_booster().model_to_string()
    assert lightgbm_checked(text)[1] == 6
    with pytest.raises(NotLoadable, match=f"tree 0: .*{reason}"):
        lightgbm_checked(changed(text, name, place, number))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("max_feature_idx=5", "max_feature_idx=900000000", "features"),
        ("max_feature_idx=5", "max_feature_idx=-5", "features"),
        ("max_feature_idx=5", "max_feature_idx=", "whole number"),
        ("num_class=1", "num_class=999999999", "classes"),
        ("tree_sizes=", "tree_sizes=1 ", "not where tree_sizes says"),
        ("tree_sizes=", "tree_sizes=nan ", "no sizes"),
        ("end of trees", "", "cut short"),
        ("num_leaves=8", "num_leaves=9", "another length|not where"),
    ],
)
def test_a_lightgbm_header_that_is_not_so_is_refused(old, new, reason):
    text = lightgbm_booster().model_to_string()
    assert old in text
    with pytest.raises(NotLoadable, match=reason):
        lightgbm_checked(text.replace(old, new, 1))


@pytest.mark.parametrize("settings", [{"booster": "dart"}, {"tree_method": "exact", "gamma": 1}], ids=str)
@pytest.mark.parametrize("form", ["json", "ubj"])
def test_every_kind_of_xgboost_model_answers_as_xgboost(settings, form):
    booster = xgboost.train({"nthread": 1, **settings}, xgboost.DMatrix(ROWS, TRUTH), 8)
    engine = load(files("xgboost", "m", m=bytes(booster.save_raw(form))), Placement())
    expected = booster.predict(xgboost.DMatrix(ROWS))
    np.testing.assert_allclose(engine.run([ROWS])[0], expected, rtol=1e-5)
    np.testing.assert_allclose(engine.run([ROWS[:1]])[0], expected[:1], rtol=1e-5)


def test_categories_of_xgboost_are_kept():
    data = xgboost.DMatrix(GROUPS, TRUTH, feature_types=["q"] * 6 + ["c"], enable_categorical=True)
    booster = xgboost.train({"nthread": 1, "max_cat_to_onehot": 1}, data, 8)
    engine = load(files("xgboost", "m", m=bytes(booster.save_raw("ubj"))), Placement())
    np.testing.assert_allclose(engine.run([GROUPS.astype(np.float32)])[0], booster.predict(data), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "place", "number"),
    [
        ("left_children", 0, 0),
        ("right_children", 0, 10**6),
        ("left_children", 0, -7),
        ("left_children", 0, -1),
        ("parents", 2, 10**6),
        ("parents", 1, 2),
        ("split_indices", 0, 6),
        ("split_indices", 0, -1),
        ("split_type", 0, 1),
        ("split_type", 0, 7),
    ],
)
def test_an_xgboost_tree_that_leads_outside_of_itself_is_refused(name, place, number):
    model = json.loads(xgboost_booster().save_raw("json"))
    xgboost_checked(json.dumps(model).encode())
    model["learner"]["gradient_booster"]["model"]["trees"][3][name][place] = number
    with pytest.raises(NotLoadable, match="tree 3"):
        xgboost_checked(json.dumps(model).encode())


def test_a_linear_booster_is_refused_with_a_way_out():
    booster = xgboost.train({"nthread": 1, "booster": "gblinear"}, xgboost.DMatrix(ROWS, TRUTH), 8)
    with pytest.raises(NotLoadable, match="convert the model to ONNX"):
        load(files("xgboost", "m", m=bytes(booster.save_raw("json"))), Placement())


@pytest.mark.parametrize(
    "content", [b"{" + b"L" * 50, b"{i\x01a[" + b"[" * 5000, b"{i\x01a[$d#L" + b"\x7f" * 8, b'{"a":' + b"[" * 100_000]
)
def test_what_would_take_all_memory_or_stack_is_refused(content):
    with pytest.raises(NotLoadable):
        xgboost_checked(content)
