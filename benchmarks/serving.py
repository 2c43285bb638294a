"""Falaj's serving against its peers and the limits: the same requests to all, server and client on one core each.

make bench-serving        the last line is one JSON object; ARGS="--quick" for a first look, "--only rest,grpc" for a part
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from serving_peers.generators import Generators, Load, Missing, least_disturbed, prepare_tools
from serving_peers.peer_table import BENCH, MODELS_ENVIRONMENT, PEERS, Peer, Running, environment_of, running_peer
from serving_peers.request_files import (
    BINARY,
    GRPC,
    JSON,
    PLAIN,
    Form,
    Questions,
    Target,
    first_wrong,
    read_questions,
    records,
    write_records,
)
from serving_peers.server_processes import (
    CLIENT_CORE,
    SERVER_CORE,
    family_of,
    free_ports,
    marked,
    megabytes,
    pinned,
    stop,
    wait_until,
)

from falaj.app.certificates import self_signed
from falaj.app.home import Home, read_document
from falaj.base.values import value
from falaj.client.http import Client
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.endpoints import (
    CONFIGURE,
    DEPLOY_REVISION,
    SHOW_ENDPOINT,
    Configure,
    Deploy,
    OneEndpoint,
    Options,
)
from falaj.serving.operations.keys import ASK_FOR_TOKEN, AskForToken
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun

HERE = Path(__file__).parent
COMMAND = (sys.executable, "-m", "falaj.cli.main")
PROJECT = "default"
MARK = "BENCH_SERVING"  # a variable by which all processes of one platform are known
TOKENS = 64
CONNECTIONS = 64
FEW_CONNECTIONS = 8  # for latency
VISION_CONNECTIONS = 4  # enough to keep one core busy at 10 ms a row, and within the latency objective as shipped
SPREAD = 100
TAPPED = 100  # the share of calls that is logged, in hundredths of a per cent
SLO_MS = 6.0
PARTS = ("rest", "grpc", "p99", "memory", "slo", "spread", "vision", "first", "tls")
GOALS = {
    "rest_json_x": "at least 10",
    "rest_binary_x": "at least 12",
    "grpc_x": "at least 3",
    "spread_x": "at least 2",
    "p99_x": "at least 4",
    "vision_limit_x": "at least 0.9",
    "first_prediction_s": "at most 2",
    "tls_x": "at least 0.5",
    "errors": "0",
}


# --- Falaj -------------------------------------------------------------------------------------------------------------------


class Falaj:
    """`falaj up` as shipped and the plane it starts, all on the server's core; what to know of either is here."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self.home = Home(path=folder / "home")
        self.url = ""  # of the plane, REST and gRPC alike; known from the first deployment on
        self._folder, self._marker, self._stack = folder, uuid.uuid4().hex, ExitStack()
        kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_")}
        self._environment = kept | {"FALAJ_HOME": str(self.home.path), MARK: self._marker}
        self._environment |= {"FALAJ_SERVING_PORT": str(free_ports(1))}
        if tls:
            certificate, private_key = self_signed(folder / "tls", ["127.0.0.1"])
            self._environment |= {
                "FALAJ_SERVING_CERTIFICATE": str(certificate),
                "FALAJ_SERVING_PRIVATE_KEY": str(private_key),
            }

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "up.log"
        self._stack.callback(lambda: stop(self.family()))
        self._process = self._stack.enter_context(pinned([*COMMAND, "up", "--port", "0"], log, self._environment, self._folder))
        wait_until(self._answers, self._process, log)
        url, token = read_document(self.home.server)["url"], read_document(self.home.credentials)["token"]
        self.client = self._stack.enter_context(Client(str(url), str(token), timeout=120))

    def _answers(self) -> bool:
        try:
            url = read_document(self.home.server)["url"]
            return httpx.get(f"{url}/healthz", timeout=5, trust_env=False).status_code == 200
        except (OSError, ValueError, KeyError, httpx.TransportError):
            return False

    def stop(self) -> None:
        self._stack.close()

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def family(self) -> list[psutil.Process]:
        """All its processes. A plane outlives its platform, so being its child is not what tells."""
        found = {process.pid: process for process in marked(MARK, self._marker)}
        for process in [*found.values(), self._process] if hasattr(self, "_process") else []:
            found |= {member.pid: member for member in family_of(process)}
        return list(found.values())

    def plane(self) -> list[psutil.Process]:
        """The processes that serve: all but the control plane's."""
        return [process for process in self.family() if process.pid != self._process.pid]

    def running(self) -> Running:
        return Running(name="falaj", port=self.port, grpc_port=self.port, family=self.family)

    def register(self, model: str, versions: list[bytes]) -> None:
        """Versions 1, 2, ... of a model, each an ONNX file uploaded to a run."""
        run = self.client.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
        self.client.call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
        for number, content in enumerate(versions, 1):
            name = f"{model}-{number}/model.onnx"
            put = PutArtifact(project=PROJECT, holder=run, name=name)
            self.client.call(PUT_ARTIFACT, put, chunks=iter([content]))
            version = CreateVersion(project=PROJECT, model=model, holder=run, folder=f"{model}-{number}", run=run)
            self.client.call(CREATE_VERSION, version)

    def deploy(self, name: str, model: str, version: int = 1, *, logged: int = TAPPED) -> None:
        """Deployed and ready, with the tap on."""
        deploy = Deploy(project=PROJECT, endpoint=name, model=model, version=version, options=Options(log_share=logged))
        self.client.call(DEPLOY_REVISION, deploy)
        self._wait_until_ready(name)

    def deploy_by_command(self, name: str, model: str) -> None:
        """As a person does it; it returns once the endpoint answers."""
        command = ["taskset", "-c", str(CLIENT_CORE), *COMMAND, "deploy", f"{model}:1", "--name", name]
        command += ["--project", PROJECT, "--json"]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"falaj deploy failed: {done.stderr[-1000:]}")
        self.url = str(json.loads(done.stdout)["endpoint"]["url"])

    def tap(self, name: str) -> None:
        self.client.call(CONFIGURE, Configure(project=PROJECT, endpoint=name, options=Options(log_share=TAPPED)))
        self._wait_until_ready(name)

    def _wait_until_ready(self, name: str) -> None:
        deadline = time.monotonic() + 60
        while True:
            found = self.client.call(SHOW_ENDPOINT, OneEndpoint(project=PROJECT, endpoint=name))
            if found.planes and found.ready == found.planes and found.url:
                self.url = found.url
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"endpoint {name} is not ready: {found.problems}")
            time.sleep(0.05)

    def token(self) -> str:
        """For all endpoints of the project, and another one each time."""
        return self.client.call(ASK_FOR_TOKEN, AskForToken(project=PROJECT)).token

    def targets(self, *names: str) -> list[Target]:
        """64 tokens; with several endpoints each request goes to the next."""
        tokens = [self.token() for _ in range(TOKENS)]
        return [
            Target(path=f"/v2/models/{name}/infer", model=name, token=tokens[number % TOKENS])
            for number, name in enumerate(names * (TOKENS if len(names) == 1 else 1))
        ]


@contextmanager
def falaj(folder: Path, *, tls: bool = False) -> Iterator[Falaj]:
    server = Falaj(folder, tls=tls)
    try:
        server.start()
        yield server
    finally:
        server.stop()


# --- measuring one server ----------------------------------------------------------------------------------------------------


@value
class Bench:
    """How long and how often; the same for every server."""

    generators: Generators
    folder: Path
    seconds: float
    tries: int
    tabular: Questions
    vision: Questions

    def requests(self, running: Running, form: Form, questions: Questions, targets: list[Target]) -> Path:
        """Written to a file, each sent once, and every answer held against the right one."""
        port = running.grpc_port if form.http2 else running.port
        made = records(form, questions, targets, f"127.0.0.1:{port}")
        file = write_records(self.folder / f"{running.name}.{form.name}", made)
        answers = self.generators.check(form.http2, port, file, 2)
        if wrong := first_wrong(form, questions, answers):
            raise RuntimeError(f"{running.name} answers wrongly over {form.name}: {wrong}")
        return file

    def closed(self, running: Running, form: Form, file: Path, connections: int) -> Load:
        port = running.grpc_port if form.http2 else running.port
        return self.least_disturbed(running, lambda: self.generators.closed(form.http2, port, file, connections, self.seconds))

    def least_disturbed(self, running: Running, load: Callable[[], Load]) -> Load:
        return least_disturbed(running.family, load, tries=self.tries)


def say(name: str, what: str, load: Load) -> Load:
    print(
        f"{name:<10}{what:<22}{load.rate:>10,.0f} /s  p50 {load.p50_ms:>8.2f}  p99 {load.p99_ms:>8.2f} ms  "
        f"errors {load.errors + load.non2xx}  "
        f"cores: server {load.server:.2f}, client {load.client:.2f}, others {load.other:.2f}; "
        f"{load.rate / max(load.server, 0.01):,.0f} per second of the server's",
        file=sys.stderr,
        flush=True,
    )
    return load


Loads = dict[str, Load]  # by protocol: json, binary, grpc; and few, for few connections


def wanted_forms(parts: set[str], forms: tuple[Form, ...]) -> list[Form]:
    by_rest = bool(parts & {"rest", "p99", "spread"})
    return [form for form in forms if ("grpc" in parts if form is GRPC else "rest" in parts if form is BINARY else by_rest)]


def measure(bench: Bench, running: Running, forms: list[Form], parts: set[str], targets: list[Target], found: Loads) -> None:
    """The tabular model over each protocol; JSON also with few connections."""
    for form in forms:
        name = "json" if form is PLAIN else form.name
        file = bench.requests(running, form, bench.tabular, targets)
        if form in (GRPC, BINARY) or parts & {"rest", "spread"}:
            load = bench.closed(running, form, file, CONNECTIONS)
            found[name] = say(running.name, f"{form.name} {CONNECTIONS}", load)
        if name == "json" and "p99" in parts:
            load = bench.closed(running, form, file, FEW_CONNECTIONS)
            found["few"] = say(running.name, f"{form.name} {FEW_CONNECTIONS}", load)


def measure_peer(bench: Bench, peer: Peer, parts: set[str], found: Loads) -> None:
    """A peer gets tokens as well, which it does not look at, so that requests are as long."""
    targets = [Target(path=peer.path, model="m", token=f"{number:03}" + 330 * "t") for number in range(TOKENS)]
    if forms := wanted_forms(parts, peer.forms):
        with running_peer(peer, bench.tabular) as running:
            measure(bench, running, forms, parts, targets, found)
            say_memory(running)
    if "vision" in parts and BINARY in peer.forms:
        with running_peer(peer, bench.vision) as running:
            file = bench.requests(running, BINARY, bench.vision, targets)
            found["vision"] = say(running.name, "vision", bench.closed(running, BINARY, file, VISION_CONNECTIONS))


def say_memory(running: Running) -> None:
    print(f"{running.name:<10}{'memory':<22}{megabytes(running.family):>10,.0f} MB", file=sys.stderr, flush=True)


# --- the figures of Falaj alone ----------------------------------------------------------------------------------------------


def first_prediction(server: Falaj, questions: Questions, name: str) -> float:
    """From the command until the first right answer."""
    token, row = server.token(), questions.rows[0]
    body, lines = JSON.body(questions, row, name)
    headers = dict(line.split(": ", 1) for line in lines.splitlines()) | {"authorization": f"Bearer {token}"}
    began = time.perf_counter()
    server.deploy_by_command(name, "rows")
    while True:
        answer = httpx.post(
            f"{server.url}/v2/models/{name}/infer", content=body, headers=headers, trust_env=False, verify=False
        )
        took = time.perf_counter() - began
        if answer.status_code == 200:
            break
        if took > 30:
            raise RuntimeError(f"no answer after {took:.0f} s: {answer.status_code} {answer.text[:300]}")
        time.sleep(0.01)
    told, right = JSON.numbers(answer.content), questions.answers[0]
    assert all(abs(got - wanted) < 1e-3 for got, wanted in zip(told, right, strict=True)), "the first answer is wrong"
    return took


def rate_held(bench: Bench, running: Running, file: Path, fastest: float) -> float:
    """The highest rate, of rising ones, at which the objective holds and nothing fails: first in steps of a quarter of the
    rate, then of a twentieth. A rate that fails is tried again, for a moment's noise is not the server's."""
    held = 0.0
    for step in (1.25, 1.05):
        rate = held * step or fastest / 5
        while _holds(bench, running, file, rate):
            held, rate = rate, rate * step
        if not held:
            return 0.0
    return held


def _holds(bench: Bench, running: Running, file: Path, rate: float) -> bool:
    for _ in range(bench.tries):
        load = least_disturbed(
            running.family, lambda: bench.generators.open(running.port, file, CONNECTIONS, bench.seconds, rate), tries=1
        )
        holds = load.clean and load.p99_ms <= SLO_MS
        print(
            f"{running.name:<10}{'open loop':<22}{rate:>10,.0f} /s  p50 {load.p50_ms:>8.2f}  p99 {load.p99_ms:>8.2f} ms  "
            f"errors {load.errors + load.non2xx}  others {load.other:.2f}  {'held' if holds else 'not held'}",
            file=sys.stderr,
            flush=True,
        )
        if holds:
            return True
    return False


def raw_rows_per_second(python: Path, questions: Questions, seconds: float) -> float:
    """ONNX Runtime alone on the server's core and one thread, at the better of batches of 1 and 8."""
    command = ["taskset", "-c", str(SERVER_CORE), str(python), str(HERE / "serving_peers" / "limit.py")]
    command += [str(questions.file), str(seconds), "1,8"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(max(json.loads(told.splitlines()[-1]).values()))


def share_of_limit(bench: Bench, running: Running, python: Path, targets: list[Target]) -> dict[str, float]:
    """In turns with the limit, so that a noisy moment hits both; the medians count."""
    file = bench.requests(running, BINARY, bench.vision, targets)
    limits, rates = [raw_rows_per_second(python, bench.vision, bench.seconds / 2)], []
    for _ in range(max(1, bench.tries)):
        load = bench.closed(running, BINARY, file, VISION_CONNECTIONS)
        rates.append(say(running.name, "vision", load).rate)
        limits.append(raw_rows_per_second(python, bench.vision, bench.seconds / 2))
    rate, limit = statistics.median(rates), statistics.median(limits)
    return {"vision_limit_x": rate / limit, "vision_rps": rate, "vision_limit_rps": limit}


def copies(content: bytes, count: int) -> list[bytes]:
    """So many models that differ: each ends in a description of its own (field 6 of an ONNX model)."""
    texts = [f"copy {number:03}".encode() for number in range(count)]
    return [content + bytes([6 << 3 | 2, len(text)]) + text for text in texts]


def measure_spread(bench: Bench, server: Falaj) -> Load:
    """100 endpoints, each with a model of its own; every request goes to another one than the one before."""
    server.register("spread", copies(bench.tabular.file.read_bytes(), SPREAD))
    names = [f"spread-{number}" for number in range(1, SPREAD + 1)]
    for number, name in enumerate(names, 1):
        server.deploy(name, "spread", number)
    running = server.running()
    file = bench.requests(running, JSON, bench.tabular, server.targets(*names))
    return say("falaj", f"json {CONNECTIONS} spread", bench.closed(running, JSON, file, CONNECTIONS))


def measure_falaj(bench: Bench, parts: set[str]) -> tuple[Loads, dict[str, float]]:
    figures: dict[str, float] = {}
    with falaj(bench.folder / "falaj") as server:
        server.register("rows", [bench.tabular.file.read_bytes()])
        figures["first_prediction_s"] = first_prediction(server, bench.tabular, "rows")
        server.tap("rows")
        running = server.running()
        targets = server.targets("rows")
        loads: Loads = {}
        asked = parts | {"rest"} if "tls" in parts else parts  # TLS is held against the same without
        measure(bench, running, wanted_forms(asked, (JSON, BINARY, GRPC)), asked, targets, loads)
        if "slo" in parts:
            file = bench.requests(running, JSON, bench.tabular, targets)
            fastest = loads["json"].rate if "json" in loads else 20_000
            figures["slo_held_rps"] = rate_held(bench, running, file, fastest)
        if "memory" in parts:
            figures["rss_mb"] = megabytes(server.plane)
            figures["rss_platform_mb"] = megabytes(server.family)
        if "vision" in parts:
            server.register("vision", [bench.vision.file.read_bytes()])
            server.deploy("vision", "vision")
            figures |= share_of_limit(bench, running, Path(sys.executable), server.targets("vision"))
        if "spread" in parts:
            loads["spread"] = measure_spread(bench, server)
    if "tls" in parts:
        loads["tls"] = measure_tls(bench)
    return loads, figures


def measure_tls(bench: Bench) -> Load:
    """The same requests over TLS; connections are kept, as without."""
    with falaj(bench.folder / "tls", tls=True) as server:
        server.register("rows", [bench.tabular.file.read_bytes()])
        first_prediction(server, bench.tabular, "rows")  # which is also checked
        server.tap("rows")
        made = records(JSON, bench.tabular, server.targets("rows"), f"127.0.0.1:{server.port}")
        file, running = write_records(bench.folder / "falaj.tls", made), server.running()
        load = bench.least_disturbed(running, lambda: bench.generators.wrk(server.url, file, CONNECTIONS, bench.seconds))
        return say("falaj", f"json {CONNECTIONS} tls", load)


# --- all of it ---------------------------------------------------------------------------------------------------------------


def compare(ours: Loads, peers: dict[str, Loads]) -> dict[str, Any]:
    """Ours over the best peer's, for each protocol."""
    figures: dict[str, Any] = {"errors": sum(load.errors + load.non2xx for load in ours.values())} if ours else {}
    for protocol, name in (("json", "rest_json"), ("binary", "rest_binary"), ("grpc", "grpc")):
        rates = {peer: loads[protocol].rate for peer, loads in peers.items() if protocol in loads}
        figures |= {f"{name}_{peer}_rps": rate for peer, rate in rates.items()}
        if protocol in ours:
            figures[f"{name}_rps"] = ours[protocol].rate
            if rates:
                figures[f"{name}_x"] = ours[protocol].rate / max(rates.values())
    rates = {peer: loads["json"].rate for peer, loads in peers.items() if "json" in loads}
    if "spread" in ours and rates:
        figures |= {"spread_x": ours["spread"].rate / max(rates.values()), "spread_rps": ours["spread"].rate}
    if "tls" in ours:
        figures["tls_rps"] = ours["tls"].rate
        if "json" in ours:
            figures["tls_x"] = ours["tls"].rate / ours["json"].rate
    waits = {peer: loads["few"].p99_ms for peer, loads in peers.items() if "few" in loads}
    figures |= {f"p99_{peer}_ms": wait for peer, wait in waits.items()}
    if "few" in ours and waits:
        figures |= {"p99_x": min(waits.values()) / ours["few"].p99_ms, "p99_ms": ours["few"].p99_ms}
    return figures


def prepare_models() -> Path:
    """The folder with models and rows, made on first use."""
    folder = BENCH / "data"
    source = HERE / "serving_models.py"
    made = folder / "models.json"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        python = environment_of("models", MODELS_ENVIRONMENT) / "python"
        subprocess.run([str(python), str(source), str(folder)], check=True)
    return folder


def chosen_peers(names: str, all_of_them: bool) -> list[Peer]:
    if names:
        unknown = set(names.split(",")) - PEERS.keys() - {"none"}
        if unknown:
            raise Missing(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}, and none")
        return [PEERS[name] for name in names.split(",") if name != "none"]
    return [peer for peer in PEERS.values() if peer.fast or all_of_them]


def measure_peers(bench: Bench, peers: list[Peer], parts: set[str]) -> dict[str, Loads]:
    found: dict[str, Loads] = {}
    for peer in peers:
        try:
            measure_peer(bench, peer, parts, found.setdefault(peer.name, {}))
        except (Missing, RuntimeError) as error:
            print(f"{peer.name}: the rest is left out: {error}", file=sys.stderr, flush=True)
    return found


def run(given: argparse.Namespace) -> dict[str, Any]:
    parts = set(given.only.split(",")) if given.only else set(PARTS)
    if parts - set(PARTS):
        raise Missing(f"no such part: {', '.join(sorted(parts - set(PARTS)))}; there are {', '.join(PARTS)}")
    peers = chosen_peers(given.peers, given.all_peers)
    if len(os.sched_getaffinity(0)) < 2:
        raise Missing("server and client need a core each; this machine gives one")
    BENCH.mkdir(parents=True, exist_ok=True)
    program, data = prepare_tools(BENCH), prepare_models()
    with tempfile.TemporaryDirectory(prefix="bench-serving-") as name:
        folder = Path(name)
        bench = Bench(
            generators=Generators(program=program, answers=folder / "answers"),
            folder=folder,
            seconds=2.0 if given.quick else 5.0,
            tries=1 if given.quick else 3,
            tabular=read_questions(data, "tabular"),
            vision=read_questions(data, "vision"),
        )
        theirs = measure_peers(bench, peers, parts)
        ours, figures = ({}, {}) if given.peers_only else measure_falaj(bench, parts)
        return compare(ours, theirs) | figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a first look: 2 s a figure, one try")
    parser.add_argument("--only", default="", help=f"a part, or several: {','.join(PARTS)}")
    parser.add_argument("--peers", default="", help=f"which, of {','.join(PEERS)}, or none; the fastest three by default")
    parser.add_argument("--all-peers", action="store_true", help="also those that are never the fastest")
    parser.add_argument("--peers-only", action="store_true", help="without Falaj")
    try:
        figures = run(parser.parse_args())
    except Missing as error:
        raise SystemExit(f"bench-serving: {error}") from None
    for name, figure in figures.items():
        print(f"{name:28} {figure:12,.2f}   {GOALS.get(name, '')}")
    print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))


if __name__ == "__main__":
    main()
