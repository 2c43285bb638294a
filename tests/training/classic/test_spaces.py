"""What is worth trying for a model, as the search reads it."""

import pytest
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

from falaj.base.errors import Invalid
from falaj.training.classic import space_of
from falaj.training.classic.spaces import SPACES
from falaj.training.search.spaces import read_space


@pytest.mark.parametrize("family", SPACES)
def test_every_space_can_be_searched(family):
    assert {one.name for one in read_space(SPACES[family])} == set(SPACES[family])


@pytest.mark.parametrize("model", [LGBMClassifier(), XGBRegressor(), LogisticRegression()])
def test_a_space_names_parameters_that_the_model_has(model):
    assert set(space_of(model)) <= set(model.get_params())


def test_the_last_step_of_a_pipeline_is_what_is_searched():
    assert space_of(make_pipeline(StandardScaler(), LogisticRegression())) == {"logisticregression__C": "log:1e-3..100.0"}


def test_a_model_of_which_nothing_is_known_says_so():
    with pytest.raises(Invalid, match="what is worth trying for StandardScaler is not known"):
        space_of(StandardScaler())
