"""Every launcher trains on a real platform through `falaj train`, loses a process to kill -9, and goes on where it was."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.training.launchers.platforms import IN, SCRIPTS, Equipped

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]
LARGE = ("--cpus", "2", "--memory", "4GiB", *IN)
EACH = ("--cpus", "1", "--memory", "3GiB", *IN)


@contextmanager
def equipped(place: Path, client: str, **environment: str) -> Iterator[Equipped]:
    running = Equipped(place, client, **environment)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("torch"), "mlflow3", FALAJ_JOBS_CPUS="2") as running:
        yield running


@pytest.fixture(scope="module")
def with_mpi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("mpi"), "mpi", FALAJ_JOBS_CPUS="2") as running:
        yield running


@pytest.fixture(scope="module")
def with_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("ray"), "raytrain") as running:
        yield running


@pytest.fixture(scope="module")
def with_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("tensorflow"), "tensorflow") as running:
        yield running


@pytest.fixture(scope="module")
def with_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("spark"), "spark") as running:
        yield running


def trained(platform: Equipped, script: str, options: tuple[str, ...], *arguments: str) -> str:
    """What the job wrote."""
    done = platform.patiently("train", str(SCRIPTS / script), *options, "--", *arguments)
    written, said = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, written + said
    return written


def steps(written: str, word: str = "step") -> dict[int, str]:
    """The last figure that was told of each step."""
    return {int(step): figure for step, figure in re.findall(rf"^{word} (\d+) (\S+)$", written, re.MULTILINE)}


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


# torchrun


@pytest.fixture(scope="module")
def undisturbed(with_torch: Equipped) -> dict[int, str]:
    return steps(trained(with_torch, "ddp.py", (*LARGE, "--processes", "2"), "--steps", "16"))


@pytest.mark.parametrize("where", [(*LARGE, "--processes", "2"), (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_torchrun_starts_a_lost_worker_again_and_the_losses_are_the_same(
    with_torch: Equipped, undisturbed: dict[int, str], where: tuple[str, ...]
):
    written = trained(with_torch, "ddp.py", where, "--steps", "16", "--lose-at", "5")
    first, again = re.findall(r"^try (\d) begins at step (\d+) of 2$", written, re.MULTILINE)
    assert first == ("1", "0")
    assert again[0] == "1"  # the job's own try went on
    assert int(again[1]) in (4, 5)
    assert steps(written) == undisturbed


def test_a_preempted_training_saves_and_goes_on_when_there_is_room_again(with_torch: Equipped, undisturbed: dict[int, str]):
    wrote: list[str] = []
    options = (*LARGE, "--processes", "2")
    with meanwhile(lambda: wrote.append(trained(with_torch, "ddp.py", options, "--steps", "16", "--pause", "1"))):
        until(
            lambda: (jobs := with_torch.json("job", "list", *IN, "--state", "running")["items"]) and jobs[0]["progress"] > 0.1
        )
        with_torch("job", "submit", "--no-source", "--cpus", "2", "--priority", "urgent", *IN, "--", "sleep", "1")
    (written,) = wrote
    first, second = re.findall(r"^try (\d) begins at step (\d+) of 2$", written, re.MULTILINE)
    assert first == ("1", "0")
    assert second[0] == "2"
    assert 0 < int(second[1]) < 16
    assert steps(written) == undisturbed


def until(holds: Callable[[], object], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_rank_that_exits_early_ends_the_others_and_is_named(with_torch: Equipped):
    options = (*LARGE, "--processes", "2", "--retries", "0", "--launcher", "torchrun")
    done = with_torch.patiently("train", str(SCRIPTS / "early.py"), *options)
    assert done.returncode == 1
    assert re.search(r"exitcode\s*: 3", done.stdout.decode())
    assert "is failed" in done.stderr.decode()


# MPI


@pytest.mark.parametrize("where", [LARGE, (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_mpirun_loses_a_rank_and_the_next_try_goes_on(with_mpi: Equipped, where: tuple[str, ...]):
    undisturbed = trained(with_mpi, "mpi.py", where, "8", "0", "0")
    written = trained(with_mpi, "mpi.py", where, "8", "4", "0")
    assert re.findall(r"^(try .*)$", written, re.MULTILINE) == [
        "try 1 begins at step 0 of 2 ranks, 2 told",
        "try 2 begins at step 4 of 2 ranks, 2 told",
    ]
    assert steps(written) == steps(undisturbed)


def test_mpirun_passes_the_preemption_on_to_its_ranks(with_mpi: Equipped):
    wrote: list[str] = []
    with meanwhile(lambda: wrote.append(trained(with_mpi, "mpi.py", LARGE, "30", "0", "0.5"))):
        until(lambda: with_mpi.json("job", "list", *IN, "--state", "running")["items"])
        time.sleep(5)
        with_mpi("job", "submit", "--no-source", "--cpus", "2", "--priority", "urgent", *IN, "--", "true")
    first, second = re.findall(r"^try (\d) begins at step (\d+)", wrote[0], re.MULTILINE)
    assert first == ("1", "0")
    assert second[0] == "2"
    assert int(second[1]) > 0
    assert len(steps(wrote[0])) == 30


# Ray, TensorFlow, Spark


@pytest.mark.parametrize("where", [LARGE, (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_ray_train_loses_a_worker_and_the_next_try_goes_on(with_ray: Equipped, where: tuple[str, ...]):
    undisturbed = trained(with_ray, "ray_train.py", (*where, "--retries", "5"), "6", "9")
    written = trained(with_ray, "ray_train.py", (*where, "--retries", "5"), "6", "3")
    begun = [int(step) for step in re.findall(r"begins at step (\d) of 2", written)]
    assert begun[0] == 0
    assert begun[-1] in (1, 2, 3)
    ended = re.compile(r'^ended {"step": 6, .*$', re.MULTILINE)
    assert ended.findall(written) == ended.findall(undisturbed) != []


def test_tensorflow_mirrors_over_two_logical_cpus_and_goes_on_after_a_kill(with_tensorflow: Equipped):
    undisturbed = trained(with_tensorflow, "mirrored.py", LARGE, "4", "9")
    written = trained(with_tensorflow, "mirrored.py", LARGE, "4", "2")
    assert re.findall(r"^(try .*)$", written, re.MULTILINE) == ["try 1 begins at epoch 0 on 2", "try 2 begins at epoch 2 on 2"]
    assert steps(written, "epoch") == steps(undisturbed, "epoch")


def test_tasks_of_tensorflow_train_one_model(with_tensorflow: Equipped):
    written = trained(with_tensorflow, "workers.py", (*EACH, "--nodes", "2"))
    told = re.findall(r"^task (\d) of 2: (\S+)$", written, re.MULTILINE)
    assert {task for task, _ in told} == {"0", "1"}
    assert len({weights for _, weights in told}) == 1


@pytest.mark.parametrize("where", [LARGE, (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_a_spark_job_is_killed_and_goes_on(with_spark: Equipped, where: tuple[str, ...]):
    written = trained(with_spark, "spark.py", where, "2", "1")
    begun = re.findall(r"^try (\d) begins after round (\d) on (local|spark)", written, re.MULTILINE)
    kind = "spark" if "--nodes" in where else "local"
    assert begun == [("1", "0", kind), ("2", "1", kind)]
    assert re.search(r"^ended 2\.00 -1\.00$", written, re.MULTILINE)
