"""What a script trains with is found in its text; nothing of it is run."""

from pathlib import Path

import pytest

from falaj.training.launchers.errors import Unreadable
from falaj.training.launchers.reading import parsed, read_text, text_of


def evidence(text: str, *places: Path) -> set[str]:
    return {one.what for one in read_text(text, "train.py", *places).found}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch", {"torch"}),
        ("import torch.distributed as dist", {"torch", "torch.distributed"}),
        ("from torch import distributed", {"torch", "torch.distributed"}),
        ("import torch\ntorch.distributed.barrier()", {"torch", "torch.distributed"}),
        ("from torch.nn.parallel import DistributedDataParallel as DDP", {"torch", "torch.distributed"}),
        ("from lightning.pytorch import Trainer", {"lightning"}),
        ("from falaj.training import Session", {"falaj.training"}),
        ("import falaj.jobs", set()),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()", {"tensorflow", "MirroredStrategy"}),
        (
            "import tensorflow as tf\ns = tf.distribute.MultiWorkerMirroredStrategy()",
            {"tensorflow", "MultiWorkerMirroredStrategy"},
        ),
        ("class MirroredStrategy: ...\nx.MirroredStrategy()", set()),  # somebody's own
        ("from mpi4py import MPI", {"mpi4py"}),
        ("import horovod.torch as hvd", {"horovod"}),
        ("def later():\n    from pyspark.ml import Pipeline", {"pyspark"}),
        ("from ray.train.torch import TorchTrainer", {"ray"}),
        ("import sklearn.linear_model, lightgbm, xgboost as xgb", {"scikit-learn", "lightgbm", "xgboost"}),
        ("print('import torch')", set()),
    ],
)
def test_what_a_script_imports_and_names_is_evidence(text: str, found: set[str]):
    assert evidence(text) == found


def test_the_line_and_the_file_are_told(tmp_path: Path):
    (tmp_path / "models.py").write_text("import os\nimport torch\n")
    reading = read_text("import models\n", "train.py", tmp_path)
    assert str(reading.has("torch")) == "torch (models.py, line 2)"
    assert reading.has("lightning") is None


def test_modules_of_its_own_are_read_however_they_are_imported(tmp_path: Path):
    package = tmp_path / "own" / "deep"
    package.mkdir(parents=True)
    (tmp_path / "own" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from .net import Net")
    (package / "net.py").write_text("import torch\nimport own.deep\n")  # in a circle
    assert evidence("from own.deep import Net", tmp_path) == {"torch"}
    (tmp_path / "broken.py").write_text("def (")
    assert evidence("import broken", tmp_path) == set()


def test_nothing_is_imported_or_run(tmp_path: Path):
    trace = tmp_path / "ran"
    text = f"open({str(trace)!r}, 'w')\nimport torch\n"
    (tmp_path / "also.py").write_text(text)
    assert evidence(text + "import also", tmp_path) == {"torch"}
    assert not trace.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nfor x in :\n", r"train\.py cannot be run: line 2: invalid syntax\. Nothing was sent\."),
        ("return 3", r"line 1: 'return' outside function"),
        ("await x", r"line 1: 'await' outside function"),
        ("x = '\0'", r"null bytes"),
        ("if True:\nprint()", r"line 2: expected an indented block"),
    ],
)
def test_a_script_that_does_not_parse_is_refused_with_line_and_reason(text: str, words: str):
    with pytest.raises(Unreadable, match=words):
        parsed(text, "train.py")


def test_a_script_that_warns_is_read_in_silence():
    assert parsed("x = '\\d'", "train.py").body


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path):
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Unreadable, match="is not UTF-8 text"):
        text_of(tmp_path / "binary.py")
    with pytest.raises(Unreadable, match="No such file"):
        text_of(tmp_path / "nowhere.py")
