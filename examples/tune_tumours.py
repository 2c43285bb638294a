"""One trial: fits with the parameters it is given, tells how it does after each pass over the data, and logs its model.

falaj tune run --set alpha=log:1e-5..1 --set rate=log:1e-3..1 --metric auc:max -- python tune_tumours.py
"""

import argparse
import logging
import warnings

import mlflow
from mlflow.models import infer_signature
from skl2onnx import to_onnx
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from train_models import test, test_truth, train, train_truth

PASSES = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alpha", type=float, required=True)
    parser.add_argument("--rate", type=float, required=True)
    given = parser.parse_args()
    scaler = StandardScaler().fit(train)
    model = SGDClassifier(
        loss="log_loss", alpha=given.alpha, eta0=given.rate, learning_rate="constant", average=True, random_state=7
    )
    with mlflow.start_run():
        for number in range(PASSES):
            model.partial_fit(scaler.transform(train), train_truth, classes=[0, 1])
            auc = roc_auc_score(test_truth, model.decision_function(scaler.transform(test)))
            mlflow.log_metric("auc", auc, step=number)
        whole = make_pipeline(scaler, model)
        onnx = to_onnx(whole, train[:1].to_numpy(), options={"zipmap": False})
        mlflow.onnx.log_model(onnx, name="model", signature=infer_signature(train[:5], whole.predict(train[:5])))
    print(f"auc {auc:.4f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main()
