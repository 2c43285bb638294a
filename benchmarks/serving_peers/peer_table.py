"""The peers: what each is installed from, how it is started and which requests it takes. Each has an environment of its own
below `.bench/serving`, made on first use."""

import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from falaj.base.values import value
from serving_peers.generators import Missing
from serving_peers.request_files import BINARY, GRPC, JSON, PLAIN, Form, Questions
from serving_peers.server_processes import Family, family_of, free_ports, pinned, wait_until

HERE = Path(__file__).parent
BENCH = HERE.parents[1] / ".bench" / "serving"
ENGINE = "onnxruntime==1.31.1"
MODELS_ENVIRONMENT = ("onnx==1.23.2", "scikit-learn==1.9.1", "skl2onnx==1.20.0", ENGINE)
V2 = "/v2/models/m/infer"
MOST_ROWS = {"tabular": 64, "vision": 8}  # of a batch, for peers that batch
# PyTriton's bundled interpreter stub is older than the standard library it loads: its RLock lacks what 3.11.7's asks for.
PYTRITON_REPAIR = """

# repaired
import multiprocessing.resource_tracker as _tracker
if not hasattr(threading.RLock(), "_recursion_count"):
    _tracker._resource_tracker._lock = threading._PyRLock()
"""


@value
class Peer:
    """`forms` are those it takes; gRPC is on the port after REST's."""

    name: str
    packages: tuple[str, ...]
    path: str
    forms: tuple[Form, ...]
    program: tuple[str, ...] = ()  # of its environment; its `*_app.py` by default
    fast: bool = False  # among the three fastest of at least one protocol, and so measured by default


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="mlserver", packages=("mlserver==1.7.1", "httptools", ENGINE), path=V2, forms=(JSON, GRPC), fast=True),
        Peer(name="kserve", packages=("kserve==0.21.0", ENGINE), path=V2, forms=(JSON, BINARY, GRPC), fast=True),
        Peer(name="pytriton", packages=("nvidia-pytriton==0.7.0", ENGINE), path=V2, forms=(JSON, BINARY, GRPC), fast=True),
        Peer(name="litserve", packages=("litserve==0.2.19", ENGINE), path="/predict", forms=(PLAIN,)),
        Peer(
            name="bentoml",
            packages=("bentoml==1.4.39", "uvloop", "httptools", ENGINE),
            path="/predict",
            forms=(PLAIN,),
            program=("bentoml", "serve", "bentoml_app:Model", "--host", "127.0.0.1", "--timeout", "60", "--port"),
        ),
        Peer(name="ray", packages=("ray[serve]==2.60.0", ENGINE), path="/", forms=(PLAIN,)),
    )
}


@value
class Running:
    """A server under load. Without a `grpc_port` it has no gRPC."""

    name: str
    port: int
    grpc_port: int
    family: Family


def environment_of(name: str, packages: tuple[str, ...]) -> Path:
    """The folder of its programs. The stamp says what it was made from."""
    venv = BENCH / name
    stamp = venv / "ready"
    if not stamp.exists() or stamp.read_text() != " ".join(packages):
        print(f"making {venv} with {packages[0]} (some minutes, once)", file=sys.stderr, flush=True)
        pip = [str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        for step in ([sys.executable, "-m", "venv", str(venv)], [*pip, *packages]):
            made = subprocess.run(step, capture_output=True, text=True, check=False)
            if made.returncode:
                raise Missing(f"the environment of {name} cannot be made here: {made.stderr.strip().splitlines()[-1]}")
        if name == "pytriton":
            _repair_pytriton(venv)
        stamp.write_text(" ".join(packages))
    return venv / "bin"


def _repair_pytriton(venv: Path) -> None:
    [file] = venv.glob("lib/python*/site-packages/pytriton/proxy/data.py")
    if "# repaired" not in (text := file.read_text()):
        file.write_text(text + PYTRITON_REPAIR)


@contextmanager
def running_peer(peer: Peer, questions: Questions) -> Iterator[Running]:
    """Serving the model of these questions under the name `m`."""
    programs, port = environment_of(peer.name, peer.packages), free_ports(3)
    if peer.program:
        command = [str(programs / peer.program[0]), *peer.program[1:], str(port)]
    else:
        command = [str(programs / "python"), str(HERE / f"{peer.name}_app.py")]
    with tempfile.TemporaryDirectory(prefix=f"bench-{peer.name}-") as folder:
        environment = {
            "BENCH_MODEL": str(questions.file),
            "BENCH_SHAPE": ",".join(map(str, questions.shape)),
            "BENCH_OUTPUTS": str(questions.outputs),
            "BENCH_MOST_ROWS": str(MOST_ROWS[questions.name]),
            "BENCH_PORT": str(port),
            "BENCH_FOLDER": folder,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(HERE),
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "BENTOML_DO_NOT_TRACK": "True",
        }
        log = BENCH / f"{peer.name}.log"
        with pinned(command, log, environment, Path(folder)) as process:
            form = next(form for form in peer.forms if not form.http2)
            wait_until(lambda: _answers(port, peer.path, form, questions), process, log)
            grpc_port = port + 1 if GRPC in peer.forms else 0
            yield Running(name=peer.name, port=port, grpc_port=grpc_port, family=lambda: family_of(process))


def _answers(port: int, path: str, form: Form, questions: Questions) -> bool:
    body, lines = form.body(questions, questions.rows[0], "m")
    headers = dict(line.split(": ", 1) for line in lines.splitlines())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
