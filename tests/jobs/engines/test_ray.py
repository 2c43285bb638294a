"""The Ray engine on a real Ray of several hosts: what every engine promises, and what becomes of hosts that die."""

import json
import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import httpx
import psutil
import pytest

from falaj.base.clock import SECOND, SystemClock
from falaj.base.errors import Unavailable
from falaj.jobs.engines.engine import Engine, Environment, Launch, Limits, MeasuresCards
from falaj.jobs.engines.ray import RayEngine
from falaj.jobs.observing import Patience
from falaj.jobs.operations.words import Resources
from falaj.jobs.scheduler.values import Seat, Shape
from falaj.jobs.store import tables
from falaj.testing.engines import EngineConformance, MakeEngine
from tests.jobs.cluster import Cluster
from tests.jobs.engines.local import ended, logged, wait_for
from tests.jobs.engines.ray_cluster import RealRay, kill
from tests.jobs.engines.receiving import RUN, receiving
from tests.jobs.mortal import spans
from tests.servers.processes import NO_TLS

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def ray(no_process_survives: None) -> Iterator[RealRay]:
    made = RealRay()
    try:
        made.add()
        made.add(gpus=2, labels="falaj/zone=away,falaj/rack=r1,ray.io/accelerator-type=H100")
        yield made
    finally:
        made.close()


@pytest.fixture
def make_engine(ray: RealRay) -> Iterator[MakeEngine]:
    """Of one platform that shares the cluster with those of the other tests."""
    made, owner = list[RayEngine](), os.urandom(8).hex()

    def make() -> Engine:
        made.append(ray.engine(owner=owner))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine: MakeEngine) -> Engine:
    return make_engine()


def launched(engine: Engine, script: str, **changes) -> str:
    given = {
        "attempt": os.urandom(8).hex(),
        "job": "job",
        "project": "project",
        "name": "a job",
        "command": ("sh", "-c", script),
        "shape": Shape(cpu_milli=500, memory_mib=256),
        "seats": (Seat(node=engine.nodes()[0].name),),
        "environment": Environment(),
        "limits": Limits(seconds=120),
        "variables": {},
    }
    launch = Launch(**given | changes)
    engine.start(launch)
    return launch.attempt


class TestConformance(EngineConformance):
    PATIENCE = 120.0

    @pytest.fixture
    def make_engine(self, make_engine: MakeEngine) -> MakeEngine:
        return make_engine


# Hosts


def test_hosts_are_told_with_their_labels(engine: Engine) -> None:
    plain, labelled = sorted(engine.nodes(), key=lambda node: len(node.cards))
    assert (plain.zone, plain.rack, plain.cards, plain.cpu_milli) == ("home", "", (), 4000)
    assert (labelled.zone, labelled.rack, labelled.cards) == ("away", "r1", ("H100", "H100"))
    assert labelled.sharing == ("whole",)
    assert isinstance(engine, MeasuresCards)
    assert engine.cards() == {labelled.name: [None, None]}  # Ray was told of cards that no driver knows of


def test_platforms_that_share_a_cluster_see_nothing_of_each_other(ray: RealRay, engine: Engine) -> None:
    attempt = launched(engine, "sleep 0.1")
    other = ray.engine(owner="somebody-else")
    assert other.look() == []
    assert other.log(attempt, 0, 100) == (b"", 0)
    other.forget(attempt)
    other.close()
    assert ended(engine, attempt).cause == "done"


def test_nothing_is_concluded_from_a_head_that_does_not_answer_or_does_not_know_us(ray: RealRay) -> None:
    for wrong in ({"address": "http://127.0.0.1:9"}, {"token": "f" * 48}):
        engine, attempt = ray.engine(**wrong), "a" * 16
        asked = [engine.look, engine.nodes, partial(engine.stop, attempt, 0), partial(engine.log, attempt, 0, 1)]
        for ask in (*asked, partial(engine.forget, attempt)):
            with pytest.raises(Unavailable):
                ask()
        engine.close()


# What outlives a try


def run(engine: Engine, script: str, **changes) -> tuple[str, str]:
    attempt = launched(engine, script, **changes)
    cause, log = ended(engine, attempt).cause, logged(engine, attempt)
    engine.forget(attempt)
    return str(cause), log


SAVES = "cat $FALAJ_CHECKPOINTS/count || echo none; echo $FALAJ_WORD >> $FALAJ_CHECKPOINTS/count; exit $FALAJ_CODE"


def test_checkpoints_stay_with_a_host_until_the_job_is_done(engine: Engine) -> None:
    def tried(word: str, code: int) -> tuple[str, str]:
        return run(engine, SAVES, checkpoints=("a" * 32,), variables={"FALAJ_WORD": word, "FALAJ_CODE": str(code)})

    assert "none" in tried("one", 3)[1]
    assert tried("two", 0) == ("done", "one\n")
    assert "none" in tried("three", 0)[1]


def test_a_shared_folder_has_the_checkpoints_of_all_hosts_and_the_first_host_the_outputs(ray: RealRay, tmp_path) -> None:
    engine = ray.engine(checkpoints=str(tmp_path / "shared"))
    hosts = [node.name for node in engine.nodes()]
    both = tuple(Seat(node=host) for host in hosts)
    each = "echo $RANK > $FALAJ_CHECKPOINTS/$RANK; echo $RANK > $FALAJ_OUTPUT/m; exit 1"
    cause, log = run(engine, each, seats=both, checkpoints=("a" * 32,), private_network=True)
    assert cause == "failed", log
    with receiving() as platform:
        for host in hosts[::-1]:  # also where it has not been alone
            read = "cd $FALAJ_CHECKPOINTS && cat 0 1 && exit 1"
            assert run(engine, read, seats=(Seat(node=host),), checkpoints=("a" * 32,))[1] == "0\n1\n"
        keeps = {"outputs": ("m",), "platform_url": platform.url, "variables": RUN}
        cause, log = run(
            engine, each.replace("exit 1", "true"), seats=both, checkpoints=("a" * 32,), private_network=True, **keeps
        )
        assert cause == "done", log
    assert platform.files == {"outputs/m": b"0\n"}
    assert [place.name for place in (tmp_path / "shared").iterdir()] == ["a" * 32]  # for the platform to remove
    engine.close()


# Secrets


def test_what_is_secret_is_shown_nowhere_in_the_cluster(ray: RealRay, engine: Engine) -> None:
    secret = os.urandom(16).hex()
    attempt = launched(engine, "echo ready; sleep 3", variables={"PASSWORD": secret})
    wait_for(lambda: "ready" in logged(engine, attempt))
    http = httpx.Client(base_url=ray.url, headers={"Authorization": f"Bearer {ray.token}"}, verify=NO_TLS)
    with http:
        for path in ("/api/jobs/", "/api/v0/actors?detail=1", "/api/v0/tasks?detail=1", "/api/v0/workers?detail=1"):
            assert secret not in http.get(path).text
        assert http.get(f"/api/packages/gcs/falaj_{attempt}_order.zip").status_code == 404
    assert ended(engine, attempt).cause == "done"
    files = [file for file in (ray.folder / "session_latest").rglob("*") if file.is_file()]
    assert any(attempt in file.name for file in files)
    assert not [file for file in files if secret.encode() in file.read_bytes()]


# Tasks on several hosts

TALK = """
import os, socket, ssl, time
rank, where = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
prefix = "GLOO_DEVICE_TRANSPORT_TCP_TLS_"
assert os.environ["GLOO_DEVICE_TRANSPORT"] == "TCP_TLS" and os.environ["WORLD_SIZE"] == "2"
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if rank else ssl.PROTOCOL_TLS_SERVER)
context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
context.load_cert_chain(os.environ[prefix + "CERT"], os.environ[prefix + "PKEY"])
context.load_verify_locations(os.environ[prefix + "CA_FILE"])
if rank == 0:
    with socket.create_server(where) as server:
        with context.wrap_socket(server.accept()[0], server_side=True) as sealed:
            print("heard", sealed.recv(100).decode())
else:
    while True:
        try:
            made = socket.create_connection(where)
            break
        except OSError:
            time.sleep(0.1)
    with context.wrap_socket(made) as sealed:
        sealed.sendall(b"hello from 1 at " + socket.gethostbyname(socket.gethostname()).encode())
"""


def on_each(engine: Engine) -> tuple[Seat, ...]:
    return tuple(Seat(node=node.name) for node in engine.nodes())


def test_tasks_on_several_hosts_find_each_other_and_have_what_they_encrypt_with(engine: Engine) -> None:
    attempt = launched(engine, "", command=("python", "-c", TALK), seats=on_each(engine))
    end = ended(engine, attempt)
    assert end.cause == "done", (end, logged(engine, attempt))
    assert logged(engine, attempt).startswith("heard hello from 1 at ")
    assert end.nodes == tuple(seat.node for seat in on_each(engine))


def test_on_a_private_network_they_need_not_encrypt(engine: Engine) -> None:
    script = 'echo "$RANK/$WORLD_SIZE" ${GLOO_DEVICE_TRANSPORT:-plain}'
    attempt = launched(engine, script, seats=on_each(engine), private_network=True)
    assert ended(engine, attempt).cause == "done"
    assert sorted(logged(engine, attempt).splitlines()) == ["0/2 plain", "1/2 plain"]


def test_tasks_on_all_hosts_end_when_one_fails(engine: Engine) -> None:
    attempt = launched(engine, '[ "$RANK" = 1 ] && exit 5; sleep 600', seats=on_each(engine))
    end = ended(engine, attempt)
    assert (end.cause, end.code) == ("failed", 5)


def test_cards_that_ray_counts_and_the_host_does_not_have_are_named(engine: Engine) -> None:
    node = next(node for node in engine.nodes() if node.cards)
    shape = Shape(cpu_milli=500, memory_mib=256, gpus=1)
    end = ended(engine, launched(engine, "echo ran", shape=shape, seats=(Seat(node=node.name, cards=(0,)),)))
    assert end.cause == "environment"
    assert "Card" in end.words


# What goes away


def processes_of(word: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if word in _line(process)]


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_with_its_driver_everything_of_an_attempt_ends(engine: Engine) -> None:
    word = f"6{os.getpid()}"
    attempt = launched(engine, f"echo ready; sleep {word}")
    wait_for(lambda: "ready" in logged(engine, attempt))
    (driver,) = processes_of(f"ray_driver {attempt}")
    driver.kill()
    assert ended(engine, attempt).cause == "lost"
    wait_for(lambda: not processes_of(f"sleep {word}"))


def test_one_that_is_stopped_by_hand_in_ray_was_stopped(ray: RealRay, engine: Engine) -> None:
    attempt = launched(engine, "echo ready; sleep 600")
    wait_for(lambda: "ready" in logged(engine, attempt))
    headers = {"Authorization": f"Bearer {ray.token}"}
    assert httpx.post(f"{ray.url}/api/jobs/{attempt}/stop", headers=headers, verify=NO_TLS).status_code == 200
    assert ended(engine, attempt).cause == "stopped"


def test_of_a_host_that_dies_attempts_are_lost_and_others_go_on(ray: RealRay, engine: Engine) -> None:
    before = {node.name for node in engine.nodes()}
    mortal = ray.add(cpus=2)
    (name,) = {node.name for node in engine.nodes()} - before
    word = f"7{os.getpid()}"
    there = launched(engine, f"echo ready; sleep {word}", seats=(Seat(node=name),))
    both = launched(engine, f"echo ready; sleep {word}", seats=(Seat(node=name), Seat(node=min(before))))
    elsewhere = launched(engine, "echo ready; sleep 15", seats=(Seat(node=min(before)),))
    for attempt in (there, both, elsewhere):
        wait_for(lambda attempt=attempt: "ready" in logged(engine, attempt))
    kill(mortal)
    for attempt in (there, both):
        end = ended(engine, attempt)
        assert end.cause == "lost"
        assert name in end.words
    wait_for(lambda: not processes_of(f"sleep {word}"))
    wait_for(lambda: name not in {node.name for node in engine.nodes()})
    late = launched(engine, "echo ran", seats=(Seat(node=name),))
    assert ended(engine, late).cause == "lost"
    assert ended(engine, elsewhere).cause == "done"


# Many

JOBS = 120


def test_a_host_dies_under_many_jobs_and_every_job_ends_exactly_once(ray: RealRay, make_engine: MakeEngine, tmp_path) -> None:
    mortal = ray.add(cpus=3)
    engine = make_engine()
    cluster = Cluster(tmp_path, SystemClock(), engines={"ray": engine})
    patience = Patience(silent=60 * SECOND, missing=10 * SECOND, unstarted=300 * SECOND, nodes=SECOND)
    controller, keeper = cluster.controller(patience=patience, real=True), cluster.log_keeper()
    resources = Resources(cpus=1, memory_mib=64)
    command = ("sh", "-c", 'echo "$FALAJ_JOB $FALAJ_TRY begins"; sleep 0.5; echo "$FALAJ_JOB $FALAJ_TRY ends"')
    rows = [cluster.row(command=command, resources=resources, zone="home", timeout=300) for _ in range(JOBS)]
    cluster.add(rows)
    killed, until = False, time.monotonic() + 1500
    while not all(row.ended is not None for row in cluster.rows(tables.jobs)):
        assert time.monotonic() < until, cluster.states()
        controller.step()
        keeper.step()
        if not killed and cluster.states().get("done", 0) >= JOBS // 4:
            kill(mortal)
            killed = True
        time.sleep(0.1)
    assert killed
    assert cluster.states() == {"done": JOBS}
    lost = 0
    for row in rows:
        tries = cluster.tries(row["id"])
        assert [one.cause for one in tries].count("done") == 1
        assert all(one.cause in ("done", "lost") for one in tries), tries
        assert cluster.told(row["id"]).count("done") == 1
        assert all(before[1] <= after[0] for before, after in pairwise(spans(cluster, row["id"]))), "two ran at once"
        lost += len(tries) - 1
    assert lost, "nothing ran on the host that died"
    wait_for(lambda: controller.step() or keeper.step() or not engine.look())
    cluster.database.close()
    print(json.dumps({"jobs": JOBS, "lost": lost}))
