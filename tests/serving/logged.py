"""Run by a client's interpreter: logs models as users do, with the records they are asked about and what they say to them.

`python logged.py FOLDER NAME...` leaves FOLDER/NAME as MLflow makes it, and FOLDER/NAME.json.
"""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import mlflow  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from mlflow.models import infer_signature  # noqa: E402

OUT = Path(sys.argv[1])
random = np.random.default_rng(1)
ROWS = 300
PEOPLE = pd.DataFrame(
    {
        "age": random.uniform(18, 90, ROWS).round(1),
        "income": random.lognormal(10, 1, ROWS).round(2),
        "visits": random.integers(0, 50, ROWS),
        "colour": random.choice(["red", "green", "blue"], ROWS),
    }
)
NUMBERS = PEOPLE[["age", "income", "visits"]]
BUYS = np.where(PEOPLE.age + 10 * (PEOPLE.colour == "red") > 60, "yes", "no")
SPENDS = (PEOPLE.age * 2 + np.log(PEOPLE.income)).to_numpy()


QUICKLY = {"pip_requirements": []}  # finding out what a model needs takes longer than all else


def keep(name, table, **answers):
    """Eight rows, and what the original says to them."""
    asked = {
        "records": json.loads(table[:8].to_json(orient="records")) if hasattr(table, "to_json") else list(table[:8]),
        "answers": {output: np.asarray(one)[:8].tolist() for output, one in answers.items()},
    }
    (OUT / f"{name}.json").write_text(json.dumps(asked))


def pipeline(name, **how):
    """With a column of texts: numbers are scaled, colours encoded."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    prepare = ColumnTransformer([("n", StandardScaler(), list(NUMBERS)), ("c", OneHotEncoder(), ["colour"])])
    model = make_pipeline(prepare, LogisticRegression(max_iter=500)).fit(PEOPLE, BUYS)
    mlflow.sklearn.save_model(model, OUT / name, signature=infer_signature(PEOPLE, model.predict(PEOPLE)), **how, **QUICKLY)
    keep(name, PEOPLE, label=model.predict(PEOPLE), probabilities=model.predict_proba(PEOPLE))


def pipeline_cloudpickle(name):
    pipeline(name, serialization_format="cloudpickle")


def regressor(name):
    """Without a signature: its columns are known to the model alone."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(max_iter=20).fit(NUMBERS, SPENDS)
    mlflow.sklearn.save_model(model, OUT / name, serialization_format="cloudpickle", **QUICKLY)
    keep(name, NUMBERS, variable=model.predict(NUMBERS))


def lightgbm(name):
    import lightgbm

    model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(NUMBERS, BUYS)
    mlflow.lightgbm.save_model(model, OUT / name, signature=infer_signature(NUMBERS, model.predict(NUMBERS)), **QUICKLY)
    keep(name, NUMBERS, predict=model.predict_proba(NUMBERS)[:, 1])


def xgboost(name):
    """Logged as a scikit-learn model; it stopped early."""
    import xgboost

    model = xgboost.XGBRegressor(n_estimators=40, early_stopping_rounds=2, learning_rate=0.7)
    model.fit(NUMBERS[:200], SPENDS[:200], eval_set=[(NUMBERS[200:], SPENDS[200:])], verbose=False)
    signature = infer_signature(NUMBERS, model.predict(NUMBERS))
    mlflow.sklearn.save_model(model, OUT / name, signature=signature, serialization_format="cloudpickle", **QUICKLY)
    keep(name, NUMBERS, predict=model.predict(NUMBERS))


def torch(name):
    import torch

    keep_torch(name, torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2), torch.nn.Softmax(1))


def torch_picture(name):
    """Rows become pictures: a program that torch 2.13 cannot export any more once it was saved."""
    import torch

    picture = torch.nn.Unflatten(1, (1, 1, 3)), torch.nn.Conv2d(1, 4, (1, 3), padding=(0, 1)), torch.nn.Flatten()
    keep_torch(name, *picture, torch.nn.Linear(12, 2))


def keep_torch(name, *layers):
    import torch

    network = torch.nn.Sequential(*layers).eval()
    rows = random.standard_normal((20, 3)).astype(np.float32)
    answers = network(torch.from_numpy(rows)).detach().numpy()
    mlflow.pytorch.save_model(network, OUT / name, signature=infer_signature(rows, answers), input_example=rows, **QUICKLY)
    keep(name, rows.tolist(), output=answers)


def torch_odd(name):
    """With an operator that ONNX has not."""
    import torch

    class Odd(torch.nn.Module):
        def forward(self, rows):
            squares = rows.unsqueeze(-1) * rows.unsqueeze(-2)
            return torch.linalg.eigvals(squares).real.sum(-1)  # the line that is told

    rows = random.standard_normal((20, 3)).astype(np.float32)
    answers = Odd()(torch.from_numpy(rows)).numpy()
    mlflow.pytorch.save_model(Odd(), OUT / name, signature=infer_signature(rows, answers), input_example=rows, **QUICKLY)
    keep(name, rows.tolist(), output=answers)


def keras(name):
    """Of two tensors, answering with two."""
    import keras

    measures, place = keras.Input((3,), name="measures"), keras.Input((2,), name="place")
    together = keras.layers.Concatenate()([keras.layers.Dense(8, activation="relu")(measures), place])
    answers = {
        "price": keras.layers.Dense(1, name="price")(together),
        "kind": keras.layers.Dense(4, activation="softmax", name="kind")(together),
    }
    asked = {"measures": random.standard_normal((20, 3)), "place": random.standard_normal((20, 2))}  # of double precision
    model = keras.Model({"measures": measures, "place": place}, answers)
    said = model.predict(asked, verbose=0)
    mlflow.tensorflow.save_model(model, OUT / name, signature=infer_signature(asked, said), **QUICKLY)
    records = [{tensor: rows[place].tolist() for tensor, rows in asked.items()} for place in range(20)]
    keep(name, records, **said)


def keras_images(name):
    """Convolutions in a row, logged as Keras' own, without a name for anything."""
    import keras

    layers = keras.layers
    convolution = [layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten()]
    model = keras.Sequential([layers.Input((8, 8, 1), name="image"), *convolution, layers.Dense(10, name="odds")])
    images = random.standard_normal((20, 8, 8, 1)).astype(np.float32)
    said = model.predict(images, verbose=0)
    mlflow.keras.save_model(model, str(OUT / name), signature=infer_signature(images, said), **QUICKLY)
    keep(name, [{"image": image.tolist()} for image in images], odds=said)


def saved_model(name):
    """TensorFlow's, without Keras."""
    import tensorflow as tf

    class Scores(tf.Module):
        def __init__(self):
            self.weights = tf.Variable(tf.random.stateless_normal((3, 2), seed=(1, 2)))

        @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32)])
        def __call__(self, rows):
            return {"scores": rows @ self.weights}

    model, rows = Scores(), random.standard_normal((20, 3)).astype(np.float32)
    said = model(rows)["scores"].numpy()
    mlflow.tensorflow.save_model(model, OUT / name, signature=infer_signature({"rows": rows}, {"scores": said}), **QUICKLY)
    keep(name, [{"rows": row.tolist()} for row in rows], scores=said)


def keras_odd(name):
    """With a layer of one's own, and an operator that ONNX has not."""
    import keras
    import tensorflow as tf

    class Singular(keras.layers.Layer):
        def call(self, rows):
            return tf.linalg.svd(rows[:, :, None] * rows[:, None, :])[0]  # the line that is told

    model = keras.Sequential([keras.layers.Input((3,), name="rows"), Singular(name="values")])
    rows = random.standard_normal((20, 3)).astype(np.float32)
    said = model.predict(rows, verbose=0)
    own = {"Singular": Singular}
    mlflow.tensorflow.save_model(model, OUT / name, signature=infer_signature(rows, said), custom_objects=own, **QUICKLY)
    keep(name, [{"rows": row.tolist()} for row in rows], values=said)


def function(name):
    """Code of one's own, which nothing converts."""

    class Greets(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return [f"{colour} at {age:g}" for colour, age in zip(model_input["colour"], model_input["age"], strict=True)]

    table = PEOPLE[["colour", "age"]]
    said = Greets().predict(None, table)
    mlflow.pyfunc.save_model(OUT / name, python_model=Greets(), signature=infer_signature(table, said), **QUICKLY)
    keep(name, table, output=said)


def unlike(name):
    """A scikit-learn estimator of one's own, which skl2onnx knows nothing about."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class Doubles(RegressorMixin, BaseEstimator):
        def fit(self, x, y):
            self.n_features_in_ = x.shape[1]
            return self

        def predict(self, x):
            return 2 * np.asarray(x)[:, 0]

    model = Doubles().fit(NUMBERS, SPENDS)
    signature = infer_signature(NUMBERS, model.predict(NUMBERS))
    mlflow.sklearn.save_model(model, OUT / name, signature=signature, serialization_format="cloudpickle", **QUICKLY)
    keep(name, NUMBERS, variable=model.predict(NUMBERS))


def changed(name):
    """Its answers are not what its library would make of its numbers."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(NUMBERS, SPENDS)
    model.predict = lambda x: np.asarray(x)[:, 0] * 3
    signature = infer_signature(NUMBERS, SPENDS)
    mlflow.sklearn.save_model(model, OUT / name, signature=signature, serialization_format="cloudpickle", **QUICKLY)
    keep(name, NUMBERS, variable=model.predict(NUMBERS))


for wanted in sys.argv[2:]:
    globals()[wanted](wanted)
