"""What the Ray engine sends, and what it refuses before it sends anything; no cluster is needed for that."""

import io
import json
import subprocess
import sys
import zipfile

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, Misconfigured, TooLarge, Unavailable
from falaj.jobs.engines import ray as ray_engine
from falaj.jobs.engines import ray_letters
from falaj.jobs.engines.engine import CardUse, Environment, Launch, Limits, Used
from falaj.jobs.engines.gang_certificates import gang_certificates
from falaj.jobs.engines.ray import RayCluster, RayEngine
from falaj.jobs.engines.ray_letters import Ended, Order, Status, card_uses
from falaj.jobs.scheduler.values import Node, Seat, Shape

NOWHERE = RayCluster(address="http://127.0.0.1:9", token="a token", zone="home")
TEXT = st.text(max_size=20)


def launch(**changes) -> Launch:
    given = {
        "attempt": "a1",
        "job": "j1",
        "project": "p1",
        "name": "a job",
        "command": ("true",),
        "shape": Shape(cpu_milli=500, memory_mib=64),
        "seats": (Seat(node="n1"),),
        "environment": Environment(),
        "limits": Limits(seconds=10),
        "variables": {},
    }
    return Launch(**given | changes)


@given(
    command=st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    variables=st.dictionaries(TEXT, TEXT, max_size=3),
    source=st.none() | st.binary(max_size=50),
    nodes=st.lists(TEXT, max_size=3).map(tuple),
    models=st.lists(TEXT, max_size=2).map(tuple),
    tls=st.none() | st.tuples(TEXT, TEXT, TEXT),
)
def test_an_order_arrives_as_it_was_sent(command, variables, source, nodes, models, tls):
    shape = Shape(cpu_milli=1, memory_mib=2, gpus=len(models), models=models)
    seats = tuple(Seat(node=f"n{number}", cards=(number,)) for number in range(len(nodes)))
    sent = launch(command=command, variables=variables, shape=shape, seats=seats, hosts=("h:1",), private_network=True)
    got = ray_letters.understood(ray_letters.written(Order(launch=sent, nodes=nodes, tls=tls), source))
    assert (got.nodes, got.tls) == (nodes, tls)
    assert (None if got.launch.source is None else b"".join(got.launch.source())) == source
    names = set(Launch.__value_fields__) - {"source"}
    assert {name: getattr(got.launch, name) for name in names} == {name: getattr(sent, name) for name in names}


@given(
    started=st.none() | st.integers(0, 2**60).map(Moment),
    ended=st.none()
    | st.builds(Ended, cause=st.just("failed"), code=st.none() | st.integers(), words=TEXT, at=st.just(Moment(5))),
)
def test_a_status_arrives_as_it_was_said(started, ended):
    status = Status(started=started, used=Used(cpu_seconds=1.5, energy_measured=True), ended=ended)
    assert ray_letters.status_understood(ray_letters.status_written(status)) == status


@given(attempt=st.from_regex(r"[a-z0-9]{1,9}", fullmatch=True), grace=st.integers(-5, 10**12))
def test_a_letter_that_asks_to_stop_says_by_its_name_how_soon(attempt, grace):
    assert ray_letters.asked_grace(attempt, ray_letters.stop_letter(attempt, grace)) == max(0, grace)
    assert ray_letters.asked_grace(attempt, ray_letters.order_letter(attempt)) is None
    assert ray_letters.asked_grace(attempt + "x", ray_letters.stop_letter(attempt, grace)) is None


def test_the_program_that_travels_needs_python_and_ray_alone(tmp_path):
    name, content = ray_engine._program()
    assert name == ray_engine._program()[0]
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    # Everything that the driver imports of ours, by an interpreter that has nothing else.
    code = """
import ast, importlib, json, pathlib, sys
sys.path.insert(0, sys.argv[1])
driver = ast.parse(pathlib.Path(sys.argv[1], "falaj/jobs/engines/ray_driver.py").read_text())
names = {found.module for found in ast.walk(driver) if isinstance(found, ast.ImportFrom) and found.module.startswith("falaj")}
for name in names:
    importlib.import_module(name)
from falaj.jobs.running import gpus, keeper, inside
ours = [module.__file__ for name, module in sys.modules.items() if name.startswith("falaj")]
print(json.dumps([len(names), [file for file in ours if file]]))
"""
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    count, files = json.loads(said)
    assert count > 5
    assert all(file.startswith(str(tmp_path)) for file in files)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": Environment(image="alpine")}, "no container images"),
        ({"shape": Shape(cpu_milli=1, memory_mib=1, gpus=1, gpu_milli=500)}, "whole GPUs"),
        ({"shape": Shape(cpu_milli=1, memory_mib=1, gpus=1), "seats": (Seat(node="a"), Seat(node="b"))}, "NCCL"),
    ],
)
def test_what_a_cluster_cannot_do_safely_is_refused_at_once(changes, words):
    engine = RayEngine(NOWHERE)
    with pytest.raises(Invalid, match=words):
        engine.start(launch(**changes))
    engine.close()


def test_a_head_that_is_not_there_says_nothing_about_attempts():
    engine = RayEngine(NOWHERE)
    for ask in (engine.look, engine.nodes, lambda: engine.start(launch()), lambda: engine.stop("a1", 0)):
        with pytest.raises(Unavailable):
            ask()
    with pytest.raises(Invalid):
        engine.log("../../etc/passwd", 0, 1)
    engine.close()


def test_a_source_is_no_larger_than_ray_keeps():
    with pytest.raises(TooLarge, match="1 MiB"):
        ray_engine._source(launch(limits=Limits(seconds=1, disk_mib=1), source=lambda: iter([bytes(600_000)] * 2)))


@pytest.mark.parametrize(
    "changes", [{"token": ""}, {"address": "10.0.0.5:8265"}, {"address": "http://10.0.0.5:8265"}, {"address": ""}]
)
def test_a_cluster_that_anybody_could_use_or_overhear_is_not_used(changes):
    given = {"address": "http://127.0.0.1:8265", "token": "t", "zone": "home"}
    with pytest.raises(Misconfigured):
        RayEngine(RayCluster(**given | changes))


@pytest.mark.parametrize("changes", [{"address": "https://10.0.0.5"}, {"address": "http://10.0.0.5:8265", "is_private": True}])
def test_a_cluster_that_is_out_of_earshot_is(changes):
    RayEngine(RayCluster(**{"token": "t", "zone": "home"} | changes)).close()


def test_tasks_of_one_attempt_trust_each_other_and_nobody_else():
    certificate, key, authority = gang_certificates("a1", 60)
    signed, signer = (x509.load_pem_x509_certificate(text.encode()) for text in (certificate, authority))
    signed.verify_directly_issued_by(signer)
    assert load_pem_private_key(key.encode(), None).public_key() == signed.public_key()
    other = x509.load_pem_x509_certificate(gang_certificates("a1", 60)[2].encode())
    with pytest.raises(Exception):  # noqa: B017 - whatever says that it is not
        signed.verify_directly_issued_by(other)


def test_what_rays_agents_say_of_cards_is_told_by_host_and_number():
    """As `/nodes?view=summary` of Ray 2.60 answers; its numbers are those of the driver."""
    card = {"name": "NVIDIA H200", "uuid": "GPU-1", "memoryUsed": 40_000, "memoryTotal": 143_771, "processesPids": {}}
    summary = [
        {"raylet": {"nodeId": "a1"}, "gpus": [{"index": 1, "utilizationGpu": None, **card}]},
        {"raylet": {"nodeId": "b2"}, "gpus": [{"index": 0, "utilizationGpu": 87, **card}]},
        {"raylet": {"nodeId": "c3"}, "gpus": []},
        {"raylet": None},
    ]
    hosts = {"a1": ("first", 2), "b2": ("second", 1), "d4": ("gone", 1)}
    nodes = {
        id: Node(name=name, zone="here", cpu_milli=1000, memory_mib=1000, cards=("H200",) * many)
        for id, (name, many) in hosts.items()
    }
    assert card_uses(summary, nodes) == {
        "first": [None, None],
        "second": [CardUse(busy=0.87, memory_mib=143_771, memory_used_mib=40_000)],
    }
