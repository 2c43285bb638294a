"""The model as its own library has it: read from the files that came in, and asked. `loading` loads it by its flavour;
TensorFlow's are in `tensorflow_models`."""

import inspect
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

HERE = Path("/tmp/model")
REQUEST = "falaj-model.json"  # what the program must know, among the model's files: flavours, columns, tensors
ROWS = "falaj-rows.json"  # and for a conversion, rows of a dataset: objects by column


class Unusable(Exception):
    """Told to whoever wanted to deploy the model."""


def arrived(stream: Any) -> dict[str, Any]:
    """Puts the files that come in where they are looked for; what is said about them."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        tar.extractall(HERE, filter="data")
    if (HERE / "code").is_dir():  # what the model was logged with by `code_paths=`
        sys.path.insert(1, str(HERE / "code"))
    said: dict[str, Any] = json.loads((HERE / REQUEST).read_text())
    return said


class Original:
    """`kind` is what people call it; `answers` takes what the model takes, and gives arrays by their names."""

    def __init__(self, model: Any, file: str, library: str) -> None:
        self.model, self.file = model, file
        self.kind = f"{library} {type(model).__name__} ({file})"

    def answers(self, asked: Any) -> dict[str, Any]:
        raise NotImplementedError


class Estimator(Original):
    """Anything that behaves as scikit-learn's do."""

    @property
    def classifies(self) -> bool:
        return hasattr(self.model, "predict_proba")

    @property
    def width(self) -> int:
        return int(getattr(self.model, "n_features_in_", 0))

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in getattr(self.model, "feature_names_in_", ())]

    def answers(self, asked: Any) -> dict[str, Any]:
        if self.classifies:
            return {"label": self.model.predict(asked), "probabilities": self.model.predict_proba(asked)}
        predict = getattr(self.model, "predict", None) or self.model.transform
        return {"variable": predict(asked)}


class Booster(Original):
    """LightGBM's and XGBoost's own, without scikit-learn around them."""

    @property
    def width(self) -> int:
        return int(self.model.num_feature() if hasattr(self.model, "num_feature") else self.model.num_features())

    @property
    def columns(self) -> list[str]:
        names = self.model.feature_name() if hasattr(self.model, "feature_name") else self.model.feature_names
        return [str(name) for name in names or ()]

    def answers(self, asked: Any) -> dict[str, Any]:
        if type(self.model).__module__.startswith("xgboost"):
            import xgboost

            return {"predict": self.model.predict(xgboost.DMatrix(asked), validate_features=False)}
        return {"predict": self.model.predict(asked)}


class OfTensors(Original):
    """Takes one array for each tensor. `told` is what the signature says of them: name, dtype and shape of each."""

    told: list[dict[str, Any]] = []

    @property
    def takes(self) -> list[dict[str, Any]]:
        """The same, as far as it is known."""
        return self.told

    @property
    def inputs(self) -> list[str]:
        """What it calls them itself."""
        return [one["name"] for one in self.takes]


class Module(OfTensors):
    """PyTorch's."""

    @property
    def inputs(self) -> list[str]:
        return list(inspect.signature(self.model.forward).parameters)

    def answers(self, asked: Any) -> dict[str, Any]:
        import torch

        with torch.no_grad():
            given = self.model(*[torch.from_numpy(array.copy()) for array in asked])
        several = given if isinstance(given, tuple | list) else [given]
        if not all(isinstance(one, torch.Tensor) for one in several):
            raise Unusable(f"it gives a {type(given).__name__}, not tensors")
        names = ["output"] if len(several) == 1 else [f"output_{number}" for number in range(len(several))]
        return {name: one.numpy() for name, one in zip(names, several, strict=True)}


class Function(Original):
    """Code of any kind, by MLflow."""

    def answers(self, asked: Any) -> dict[str, Any]:
        given = self.model.predict(asked)
        if hasattr(given, "columns"):
            return {str(name): given[name].to_numpy() for name in given.columns}
        return dict(given) if isinstance(given, dict) else {"output": given}


def unpickled(file: str) -> Any:
    """The object in a file, by whatever wrote it."""
    path = HERE / file
    if path.suffix == ".skops":
        from skops.io import get_untrusted_types
        from skops.io import load as load_skops

        return load_skops(path, trusted=get_untrusted_types(file=path))
    try:
        import cloudpickle as pickle
    except ModuleNotFoundError:
        import pickle
    with path.open("rb") as stream:
        return pickle.load(stream)
