#!/usr/bin/env bash
# Make the environments of the stock MLflow clients below .clients (or $FALAJ_CLIENTS): mlflow3 and mlflow2 for tests, examples for
# the scripts in that folder; ray, which clusters of tests run on; raytrain, mpi, spark and tensorflow, which trainings of tests run
# with (and Keras' models are converted with, in the last); and lake, which reads Delta and Iceberg tables and has polars. Name those
# that are wanted. Each has a stamp with the list it was made from: nothing happens when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${FALAJ_CLIENTS:-.clients} python=${PYTHON:-python3}

# The pins are what the MLflow face is held against. Both clients see one copy of these libraries, which are large; what a client
# needs in another version it has itself, and that comes first.
libraries=(
    lightgbm==4.7.0
    lightning==2.6.6
    onnx==1.23.2
    onnxmltools==1.16.0
    onnxruntime==1.31.1
    onnxscript==0.7.2
    optuna==5.0.0
    optuna-integration==5.0.0
    scikit-learn==1.9.1
    skl2onnx==1.20.0
    torch==2.13.0
    xgboost==3.2.0
)
mlflow3=(mlflow==3.17.2)
mlflow2=(mlflow==2.22.5)
examples=(mlflow-skinny==3.17.2 onnx==1.23.2 onnxruntime==1.31.1 pandas==3.1.1 scikit-learn==1.9.1 skl2onnx==1.20.0 "tritonclient[http,grpc]==2.73.0")
ray=("ray[default]==2.60.0")
raytrain=("ray[default,train]==2.60.0")
mpi=(mpi4py==4.1.2 mpich==5.0.2 numpy==2.4.6)
spark=(pyspark==4.3.0 numpy==2.4.6)
tensorflow=(tensorflow-cpu==2.21.0 mlflow-skinny==3.17.2 onnx==1.23.2 onnxruntime==1.31.1 pandas==3.1.1 scipy==1.17.1 tf2onnx==1.17.0)
lake=(deltalake==1.6.6 "pyiceberg[sql-sqlite]==0.12.0" numpy==2.4.6 polars==2.1.0 pyarrow==25.0.1)

# pip tells about find-links folders that are not there; that is no news to anyone here.
quietly() { "$@" --quiet --disable-pip-version-check 2> >(grep -v "^WARNING: Location .* is ignored" >&2); }

packages_of() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# make_client NAME [BESIDE]: the environment NAME; with BESIDE it sees what that one has, too.
make_client() {
    local venv=$folder/$1 beside=${2:-}
    local -n wanted=$1
    local stamp="${wanted[*]}${beside:+ beside ${libraries[*]}}"
    if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.made" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    echo "making $venv with ${wanted[0]} and its libraries (the first time takes a few minutes)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    if [ -n "$beside" ]; then
        packages_of "$folder/$beside" >"$(packages_of "$venv")/$beside.pth"
    fi
    quietly "$venv/bin/pip" install --upgrade 'pip<27' # the one that Python brings needs three times as long below
    # Compiling all of it would take longer than unpacking it; Python compiles what is used.
    quietly "$venv/bin/pip" install --no-compile "${wanted[@]}"
    echo "$stamp" >"$venv/.made"
}

make_with_libraries() {
    make_client libraries
    together=()
    for client in "$@"; do
        make_client "$client" libraries &
        together+=($!)
    done
    for maker in "${together[@]}"; do
        wait "$maker"
    done
}

mkdir -p "$folder"
with_libraries=() makers=()
for client in "$@"; do # side by side: most of the time is unpacking
    case $client in
        mlflow2 | mlflow3 | raytrain) with_libraries+=("$client") ;;
        *)
            make_client "$client" &
            makers+=($!)
            ;;
    esac
done
if [ ${#with_libraries[@]} -gt 0 ]; then
    make_with_libraries "${with_libraries[@]}" &
    makers+=($!)
fi
for maker in "${makers[@]}"; do
    wait "$maker"
done
