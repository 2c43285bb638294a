#!/usr/bin/env bash
# Make the environments of the stock MLflow clients that tests and benchmarks run: .clients/mlflow3 and .clients/mlflow2, or
# below $1. Each has a stamp with the list it was made from, so that nothing happens when nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.clients} python=${PYTHON:-python3}

# The pins are what the MLflow face is held against; both clients get the same libraries.
libraries=(
    lightgbm==4.7.0
    lightning==2.6.6
    onnx==1.23.2
    onnxruntime==1.31.1
    optuna==5.0.0
    optuna-integration==5.0.0
    scikit-learn==1.9.1
    skl2onnx==1.20.0
    torch==2.13.0
    xgboost==3.2.0
)

make_client() {
    local venv=$1 mlflow=$2
    local wanted="$mlflow ${libraries[*]}"
    if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.made" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    echo "making $venv with $mlflow and its libraries (the first time takes some minutes)"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$mlflow" "${libraries[@]}" \
        2> >(grep -v "^WARNING: Location .* is ignored" >&2)
    echo "$wanted" >"$venv/.made"
}

make_client "$folder/mlflow3" mlflow==3.17.2
make_client "$folder/mlflow2" mlflow==2.22.5
