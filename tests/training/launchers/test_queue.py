"""The shortest trainings through `falaj train` and the real queue; `test_platform` has the longer ones, and every launcher."""

import re

from tests.training.launchers.platforms import IN, LARGE, Equipped, meanwhile, steps, trained, until


def test_a_preempted_training_saves_and_goes_on_where_it_was_when_the_urgent_one_is_done(with_torch: Equipped):
    wrote: list[str] = []
    options = (*LARGE, "--processes", "2")
    with meanwhile(lambda: wrote.append(trained(with_torch, "ddp.py", options, "--steps", "8", "--wait-at", "3"))):
        until(lambda: (jobs := with_torch.json("job", "list", *IN, "--state", "running")["items"]) and jobs[0]["progress"] > 0)
        with_torch("job", "submit", "--no-source", "--cpus", "2", "--priority", "urgent", *IN, "--", "true")
    (written,) = wrote
    first, second = re.findall(r"^try (\d) begins at step (\d+) of 2$", written, re.MULTILINE)
    assert first == ("1", "0")
    assert second[0] == "2"
    assert 3 <= int(second[1]) < 8
    assert re.findall(r"^step (\d+) ", written, re.MULTILINE) == list("12345678")  # none twice
    assert steps(written) == steps(written, "undisturbed")


def test_mpirun_loses_a_rank_and_the_next_try_goes_on(with_mpi: Equipped):
    written = trained(with_mpi, "mpi.py", LARGE, "8", "4", "0")
    assert re.findall(r"^(try .*)$", written, re.MULTILINE) == [
        "try 1 begins at step 0 of 2 ranks, 2 told",
        "try 2 begins at step 4 of 2 ranks, 2 told",
    ]
    assert steps(written) == steps(written, "undisturbed")
    assert len(steps(written)) == 8
