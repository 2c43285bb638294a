"""The same training as a manifest: the fields that the operators' published definitions have, and no others."""

import pytest

from falaj.training.launchers.choosing import Launch, Wishes, choose
from falaj.training.launchers.errors import Unfit
from falaj.training.launchers.manifests import Pod, written
from falaj.training.launchers.reading import read_text

POD = Pod(name="My Model_2", image="r/t:1", cpus=2.5, memory_mib=4096, gpus=2.0, variables={"A": "b"}, retries=2)
AMOUNTS = {"cpu": "2500m", "memory": "4096Mi", "nvidia.com/gpu": "2"}
SCRIPT = ("train.py", "--epochs", "3")


def launch(text: str = "import torch.distributed", **wishes: object) -> Launch:
    return choose(read_text(text, "train.py"), SCRIPT[1:], Wishes(nodes=3, gpus=2.0, **wishes))  # type: ignore[arg-type]


def test_a_train_job_names_a_runtime_nodes_and_processes():
    made = written("trainjob", launch(), SCRIPT, POD)
    assert (made["apiVersion"], made["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert made["metadata"]["name"] == "my-model-2"
    assert made["spec"]["runtimeRef"] == {"name": "torch-distributed"}
    assert made["spec"]["trainer"] == {
        "image": "r/t:1",
        "command": ["torchrun"],
        "args": list(SCRIPT),
        "env": [{"name": "A", "value": "b"}],
        "numNodes": 3,
        "numProcPerNode": 2,
        "resourcesPerNode": {"requests": AMOUNTS, "limits": AMOUNTS},
    }


def test_a_pytorch_job_has_one_master_and_the_rest_as_workers():
    spec = written("pytorchjob", launch(), SCRIPT, POD)["spec"]
    assert spec["nprocPerNode"] == "2"
    assert {role: one["replicas"] for role, one in spec["pytorchReplicaSpecs"].items()} == {"Master": 1, "Worker": 2}
    (container,) = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"
    assert container["command"] == ["torchrun", *SCRIPT]


@pytest.mark.parametrize(
    ("text", "pod", "words"),
    [
        ("import mpi4py", POD, "train.py needs mpi"),
        ("import torch.distributed", Pod(name="x", image="", cpus=1, memory_mib=1, gpus=0, variables={}, retries=0), "--image"),
    ],
)
def test_what_such_an_operator_does_not_start_is_refused(text: str, pod: Pod, words: str):
    with pytest.raises(Unfit, match=words):
        written("pytorchjob", launch(text), SCRIPT, pod)
