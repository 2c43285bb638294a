"""Loading a model by its flavour, with its own library."""

from typing import Any

from falaj.runtimes.sandboxed import tensorflow_models
from falaj.runtimes.sandboxed.originals import (
    HERE,
    Booster,
    Estimator,
    Function,
    Module,
    OfTensors,
    Original,
    Unusable,
    unpickled,
)


def load(said: dict[str, Any]) -> Original:
    flavours: dict[str, str] = said["flavours"]
    for name, loader in LOADERS.items():
        if flavours.get(name):
            original = loader(flavours[name])
            if isinstance(original, OfTensors):
                original.told = said["tensors"]
            return original
    raise Unusable(f"no way is known to load a model of flavour {', '.join(sorted(flavours)) or 'none'}")


def _sklearn(file: str) -> Original:
    return Estimator(unpickled(file), file, "scikit-learn")


def _lightgbm(file: str) -> Original:
    import lightgbm

    is_text = (HERE / file).read_bytes()[:5] == b"tree\n"
    model = lightgbm.Booster(model_file=HERE / file) if is_text else unpickled(file)
    return (Booster if isinstance(model, lightgbm.Booster) else Estimator)(model, file, "LightGBM")


def _xgboost(file: str) -> Original:
    import xgboost

    if (HERE / file).suffix in (".pkl", ".pickle", ".skops"):
        model = unpickled(file)
    else:
        model = xgboost.Booster()
        model.load_model(HERE / file)
    return (Booster if isinstance(model, xgboost.Booster) else Estimator)(model, file, "XGBoost")


def _pytorch(folder: str) -> Original:
    import torch

    files = sorted(path for path in (HERE / folder).rglob("*.pt*"))
    if not files:
        raise Unusable("the PyTorch model's file is not among the version's files: register it complete")
    if files[0].suffix == ".pt2":
        program = torch.export.load(files[0])
        made = Module(program.module(), files[0].name, "PyTorch")
        made.kind = f"PyTorch's exported program ({files[0].name})"
        made.program = program
        return made
    model = torch.load(files[0], map_location="cpu", weights_only=False)
    if not isinstance(model, torch.nn.Module):
        raise Unusable(
            f"its file holds a {type(model).__name__}, not a whole module: log it with `mlflow.pytorch.log_model(module)`"
        )
    return Module(model.eval(), files[0].name, "PyTorch")


def _function(_: str) -> Original:
    import mlflow

    return Function(mlflow.pyfunc.load_model(str(HERE)), "MLmodel", "MLflow")


LOADERS = {
    "sklearn": _sklearn,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "pytorch": _pytorch,
    "tensorflow": tensorflow_models.load,
    "keras": tensorflow_models.load,
    "python_function": _function,
}
