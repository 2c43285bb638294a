#!/usr/bin/env bash
# Make the environments of the stock MLflow clients below .clients (or $FALAJ_CLIENTS): mlflow3 and mlflow2 for tests, demo for
# `make demo`. Name those that are wanted. Each has a stamp with the list it was made from: nothing happens when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${FALAJ_CLIENTS:-.clients} python=${PYTHON:-python3}

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
mlflow3=(mlflow==3.17.2 "${libraries[@]}")
mlflow2=(mlflow==2.22.5 "${libraries[@]}")
demo=(mlflow-skinny==3.17.2 onnx==1.23.2 onnxruntime==1.31.1 pandas==3.1.1 scikit-learn==1.9.1 skl2onnx==1.20.0)

make_client() {
    local venv=$folder/$1
    local -n wanted=$1
    if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.made" 2>/dev/null)" = "${wanted[*]}" ]; then
        return
    fi
    echo "making $venv with ${wanted[0]} and its libraries (the first time takes a few minutes)"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}" 2> >(grep -v "^WARNING: Location .* is ignored" >&2)
    echo "${wanted[*]}" >"$venv/.made"
}

mkdir -p "$folder"
makers=()
for client in "$@"; do
    make_client "$client" & # side by side: most of the time is unpacking
    makers+=($!)
done
for maker in "${makers[@]}"; do
    wait "$maker"
done
