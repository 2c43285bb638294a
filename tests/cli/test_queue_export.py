"""Queues written for Kueue from the command line."""

from pathlib import Path

import yaml

from tests.cli.conftest import Running
from tests.jobs.engines.published import validate

QUEUES = """
[[cohort]]
name = "company"

[[queue]]
name = "default"
cohort = "company"
quota = { cpu = 1 }
order = "shortest"

[[queue]]
name = "gpus"
cohort = "company"
quota = { "gpu:H100" = 2 }
"""


def test_queues_are_exported_as_kueue_reads_them(platform: Running, tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text(QUEUES)
    platform("queue", "apply", str(file))
    assert "--product" in platform.fails("queue", "export", "kueue", status=2)
    assert "H100=NVIDIA" in platform.fails("queue", "export", "kueue", "--product", "H100", status=2)
    product = ("--product", "H100=NVIDIA-H100-80GB-HBM3")
    written, said = platform.both("queue", "export", "kueue", "--namespace", "jobs", *product)
    assert written.startswith("# Queue default orders its jobs")
    assert "objects for Kueue, 1 remarks" in said
    found = list(yaml.safe_load_all(written))
    for one in found:
        validate(one)
    kinds = {"ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass"}
    assert {one["kind"] for one in found} == kinds
    assert {one["metadata"]["namespace"] for one in found if one["kind"] == "LocalQueue"} == {"jobs"}
    told = platform.json("queue", "export", "kueue", "--output", str(tmp_path / "queues.yaml"), *product)
    assert told["objects"] == len(found)
    assert len(told["remarks"]) == 1
