"""Which launcher a script gets, what it is told, and what is refused."""

import pytest

from falaj.training.launchers.choosing import Launch, Wishes, choose
from falaj.training.launchers.errors import Unfit
from falaj.training.launchers.reading import read_text

DDP = "import torch.distributed"
PLAIN = "import torch"
CLASSIC = "from sklearn.svm import SVC"
MIRRORED = "import tensorflow as tf\ntf.distribute.MirroredStrategy()"
WORKERS = "import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()"


def chosen(text: str, *arguments: str, **wishes: object) -> Launch:
    return choose(read_text(text, "train.py"), arguments, Wishes(**wishes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "wishes", "launcher", "processes"),
    [
        (PLAIN, {}, "single", 1),
        (PLAIN, {"gpus": 4.0}, "single", 1),
        (DDP, {}, "torchrun", 1),
        (DDP, {"gpus": 4.0, "nodes": 2}, "torchrun", 4),
        (DDP, {"processes": 2}, "torchrun", 2),
        ("import lightning", {}, "single", 1),
        ("import lightning", {"gpus": 2.0}, "torchrun", 2),
        ("from falaj.training import Session", {"nodes": 2}, "torchrun", 1),
        (MIRRORED, {"gpus": 2.0}, "tensorflow", 1),
        (WORKERS, {"nodes": 2}, "tensorflow", 1),
        ("import tensorflow", {}, "single", 1),
        ("import mpi4py", {"cpus": 3.5}, "mpi", 3),
        ("import horovod.torch, torch", {"gpus": 2.0, "cpus": 8.0}, "mpi", 2),
        ("import pyspark", {"cpus": 4.0}, "spark", 1),
        ("import ray.train, torch.distributed", {"nodes": 2}, "ray", 1),
        (CLASSIC, {"cpus": 8.0}, "single", 1),
        ("print(1)", {}, "single", 1),
        (PLAIN, {"launcher": "torchrun", "nodes": 2}, "torchrun", 1),
    ],
)
def test_the_script_and_what_was_asked_for_decide(text: str, wishes: dict[str, object], launcher: str, processes: int):
    launch = chosen(text, **wishes)
    assert (launch.launcher, launch.processes) == (launcher, processes)
    assert launch.sentences[0].startswith(f"Launcher {launcher}: ")


def test_the_sentence_says_where_the_evidence_is():
    assert chosen("\n\n" + DDP).sentences[0] == "Launcher torchrun: train.py uses torch.distributed (train.py, line 3)."
    assert "as was asked for" in chosen(PLAIN, launcher="mpi").sentences[0]
    assert any("experimental" in one for one in chosen("import horovod.torch").sentences)
    assert any("It sees 4 GPUs from one process" in one for one in chosen(PLAIN, gpus=4.0).sentences)


def test_the_command_starts_the_starter_and_keeps_the_arguments():
    launch = chosen(DDP, "--epochs", "3", processes=2, grace=60)
    told = "python3 .falaj/start.py torchrun --processes 2 --grace 60 --restarts 3 -- train.py --epochs 3"
    assert " ".join(launch.command) == told
    assert "--cpus 4 --gpus 1" in " ".join(chosen("import ray", cpus=4.9, gpus=1.0).command)


@pytest.mark.parametrize(
    ("text", "wishes", "words"),
    [
        (CLASSIC, {"nodes": 2}, r"uses scikit-learn \(train\.py, line 1\), which trains in one process .* 2 nodes would each"),
        ("import lightgbm", {"processes": 2}, "2 processes would each train the same model"),
        (PLAIN, {"nodes": 2}, "Nothing in train.py lets several processes train one model, and 2 nodes were asked for"),
        (MIRRORED, {"nodes": 2}, "2 nodes need a MultiWorkerMirroredStrategy"),
        (WORKERS, {"nodes": 2, "processes": 2}, "from one process; leave out --processes 2"),
        ("import pyspark", {"processes": 2}, "Spark and Ray start processes themselves"),
        (DDP, {"processes": 2, "gpus": 0.5}, "2 processes cannot share 0.5 GPUs"),
        (DDP, {"launcher": "slurm"}, "There is no launcher 'slurm'; there are auto, single, torchrun"),
        (DDP, {"nodes": 0}, "0 nodes, 0 at least"),
        (DDP, {"nodes": 2, "least": 3}, "2 nodes, 3 at least"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do_instead(text: str, wishes: dict[str, object], words: str):
    with pytest.raises(Unfit, match=words):
        chosen(text, **wishes)
