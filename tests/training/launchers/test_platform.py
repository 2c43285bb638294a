"""Every launcher trains on a real platform through `falaj train`, loses a process to kill -9, and goes on where it was."""

import re

import pytest

from tests.training.launchers.platforms import IN, LARGE, SCRIPTS, Equipped, meanwhile, steps, trained, until_it_wrote

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]
EACH = ("--cpus", "1", "--memory", "3GiB", *IN)


# torchrun


@pytest.mark.parametrize("where", [(*LARGE, "--processes", "2"), (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_torchrun_starts_a_lost_worker_again_and_the_losses_are_the_same(with_torch: Equipped, where: tuple[str, ...]):
    written = trained(with_torch, "ddp.py", where, "--steps", "16", "--lose-at", "5")
    first, again = re.findall(r"^try (\d) begins at step (\d+) of 2$", written, re.MULTILINE)
    assert first == ("1", "0")
    assert again[0] == "1"  # the job's own try went on
    assert int(again[1]) in (4, 5)
    assert steps(written) == steps(written, "undisturbed")
    assert len(steps(written)) == 16


def test_a_rank_that_exits_early_ends_the_others_and_is_named(with_torch: Equipped):
    options = (*LARGE, "--processes", "2", "--retries", "0", "--launcher", "torchrun")
    done = with_torch.patiently("train", str(SCRIPTS / "early.py"), *options)
    assert done.returncode == 1
    assert re.search(r"exitcode\s*: 3", done.stdout.decode())
    assert "is failed" in done.stderr.decode()


def test_a_process_that_hangs_is_told_with_stacks_and_all_go_on_from_the_last_checkpoint(with_torch: Equipped):
    options = (*LARGE, "--processes", "2", "--grace", "5")
    done = with_torch.patiently("train", str(SCRIPTS / "hanging.py"), *options)
    written = done.stdout.decode()
    assert done.returncode == 0, written + done.stderr.decode()
    first, again = re.findall(r"^try (\d) begins at step (\d+) of 2$", written, re.MULTILINE)
    assert first == ("1", "0")
    assert again[0] == "1"
    assert int(again[1]) in (4, 5)
    assert "process 0 of 2 has waited 4 s for the others in" in written
    assert "all_reduce" in written
    assert list(steps(written)) == list(range(1, 9))


def test_two_processes_of_lightning_go_on_from_sealed_checkpoints_with_the_same_losses(with_torch: Equipped):
    options = (*LARGE, "--processes", "2")
    undisturbed = trained(with_torch, "fitted.py", options, "0")
    written = trained(with_torch, "fitted.py", options, "4")
    first, again = re.findall(r"^try (\d) begins at step (\d+) of 2$", written, re.MULTILINE)
    assert first == ("1", "0")
    assert again[0] == "1"
    assert int(again[1]) in (3, 4)
    assert steps(written) == steps(undisturbed)
    assert len(steps(written)) == 12


def test_a_training_that_waits_for_its_loader_has_more_cpus_and_loader_processes_the_next_time(with_torch: Equipped):
    options = ("--experiment", "loading", "--memory", "2GiB", *IN)
    assert trained(with_torch, "loading.py", options).splitlines()[-1] == "trained with 1 loader processes on 1 CPUs"
    done = with_torch.patiently("train", str(SCRIPTS / "loading.py"), "--apply-profile", *options)
    written, said = done.stdout.decode(), done.stderr.decode()
    assert re.search(r"^Asks for 2 CPUs instead of 1.*: input-bound: .* of each step waits for data; ", said, re.MULTILINE)
    workers = re.search(r"^Starts with (\d+) loader workers, as its profile asks for\.$", said, re.MULTILINE)
    assert workers, said
    assert written.splitlines()[-1] == f"trained with {workers[1]} loader processes on 2 CPUs"


# MPI


def test_mpirun_loses_a_rank_of_two_nodes_and_the_next_try_goes_on(with_mpi: Equipped):
    where = (*EACH, "--nodes", "2")
    written = trained(with_mpi, "mpi.py", where, "8", "4", "0")
    assert re.findall(r"^(try .*)$", written, re.MULTILINE) == [
        "try 1 begins at step 0 of 2 ranks, 2 told",
        "try 2 begins at step 4 of 2 ranks, 2 told",
    ]
    assert steps(written) == steps(written, "undisturbed")
    assert len(steps(written)) == 8


def test_mpirun_passes_the_preemption_on_to_its_ranks(with_mpi: Equipped):
    wrote: list[str] = []
    with meanwhile(lambda: wrote.append(trained(with_mpi, "mpi.py", LARGE, "40", "0", "0.5"))):
        until_it_wrote(with_mpi, "step 1 ")
        with_mpi("job", "submit", "--no-source", "--cpus", "2", "--priority", "urgent", *IN, "--", "true")
    first, second = re.findall(r"^try (\d) begins at step (\d+)", wrote[0], re.MULTILINE)
    assert first == ("1", "0")
    assert second[0] == "2"
    assert int(second[1]) > 0
    assert len(steps(wrote[0])) == 40


# Ray, TensorFlow, Spark


@pytest.mark.parametrize("where", [LARGE, (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_ray_train_loses_a_worker_and_the_next_try_goes_on(with_ray: Equipped, where: tuple[str, ...]):
    written = trained(with_ray, "ray_train.py", (*where, "--retries", "5"), "6", "3")
    begun = [int(step) for step in re.findall(r"begins at step (\d) of 2", written)]
    assert begun[0] == 0
    assert begun[-1] in (1, 2, 3)
    ((loss, alone),) = re.findall(r"^ended at step 6 with (\S+), alone (\S+)$", written, re.MULTILINE)
    assert float(loss) == pytest.approx(float(alone), rel=1e-5)


def test_tensorflow_mirrors_over_two_logical_cpus_and_goes_on_after_a_kill(with_tensorflow: Equipped):
    undisturbed = trained(with_tensorflow, "mirrored.py", LARGE, "4", "9")
    written = trained(with_tensorflow, "mirrored.py", LARGE, "4", "2")
    assert re.findall(r"^(try .*)$", written, re.MULTILINE) == ["try 1 begins at epoch 0 on 2", "try 2 begins at epoch 2 on 2"]
    assert steps(written, "epoch") == steps(undisturbed, "epoch")


def test_tasks_of_tensorflow_train_one_model_and_go_on_when_one_was_killed(with_tensorflow: Equipped):
    where = (*EACH, "--nodes", "2")
    undisturbed = trained(with_tensorflow, "workers.py", where, "0")
    written = trained(with_tensorflow, "workers.py", where, "4")
    begun = re.findall(r"^try (\d) of task (\d) begins at step (\d) of 2$", written, re.MULTILINE)
    assert sorted(begun[:2]) == [("1", "0", "0"), ("1", "1", "0")]
    assert len({step for _, _, step in begun[2:]}) == 1
    assert {(again, task) for again, task, _ in begun[2:]} == {("2", "0"), ("2", "1")}
    assert begun[2][2] in "34"
    assert steps(written) == steps(undisturbed)
    assert len(steps(written)) == 8
    ended = re.compile(r"^task (\d) ends with (\S+)$", re.MULTILINE)
    assert sorted(ended.findall(written)) == sorted(ended.findall(undisturbed))
    assert len({weights for _, weights in ended.findall(written)}) == 1


@pytest.mark.parametrize("where", [LARGE, (*EACH, "--nodes", "2")], ids=["one node", "two nodes"])
def test_a_spark_job_is_killed_and_goes_on(with_spark: Equipped, where: tuple[str, ...]):
    written = trained(with_spark, "spark.py", where, "2", "1")
    begun = re.findall(r"^try (\d) begins after round (\d) on (local|spark)", written, re.MULTILINE)
    kind = "spark" if "--nodes" in where else "local"
    assert begun == [("1", "0", kind), ("2", "1", kind)]
    assert re.search(r"^ended 2\.00 -1\.00$", written, re.MULTILINE)
