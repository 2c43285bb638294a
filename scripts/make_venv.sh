#!/usr/bin/env bash
# Make the virtual environment $1 if it is missing, and install requirement $2 into it, in editable form.
set -euo pipefail
venv=$1 requirement=$2 python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Falaj needs Python 3.11 or newer; $python is $("$python" --version). Name another: make PYTHON=/path/to/python3.11" >&2
    exit 1
}
if [ ! -x "$venv/bin/pip" ]; then
    echo "making $venv"
    "$python" -m venv "$venv" || {
        echo "Could not make a virtual environment. On Debian: apt-get install python3-venv" >&2
        exit 1
    }
fi
echo "installing falaj and what it needs into $venv (the first time takes a minute or two)"
# The pip that Python brings needs three times as long to find what goes together.
"$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade 'pip<27' \
    2> >(grep -v "^WARNING: Location .* is ignored" >&2)
# pip tells about find-links folders that are not there; that is no news to anyone here.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile -e "$requirement" \
    2> >(grep -v "^WARNING: Location .* is ignored" >&2)
# pip compiles on one core, and the libraries' own tests with them: more than half of the whole time.
"$venv/bin/python" -m compileall -q -j 0 -x '/tests?/|/torch/testing/' "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
