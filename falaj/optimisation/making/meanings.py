"""What a model's file says that its answers mean: libraries of trees write it down, other formats do not. `answers` finds the
rest out."""

from typing import Literal, TypeAlias

from falaj.base.values import value
from falaj.optimisation.making.values import Made
from falaj.optimisation.making.xgboost_ensembles import LARGEST, document_of

Told: TypeAlias = Literal["scores", "numbers", "class numbers", "nothing"]


@value
class Meaning:
    """Of several numbers for a row: whether they are `scores` of classes or `numbers` of their own; or that the answer is one
    of so many `class numbers`."""

    told: Told = "nothing"
    classes: int = 0


def meaning_of(made: Made) -> Meaning:
    if made.runtime == "lightgbm":
        return Meaning(told="scores")  # it has no trees for several numbers
    if made.runtime != "xgboost":
        return Meaning()
    learner = document_of(made.content)["learner"]
    about = learner["learner_model_param"]
    classes, targets = int(about["num_class"]), int(about.get("num_target", 1))
    if learner["objective"]["name"] == LARGEST:
        return Meaning(told="class numbers", classes=classes)
    return Meaning(told="scores" if classes > 1 else "numbers" if targets > 1 else "nothing")
