"""The benchmark for GPUs, on whatever is there."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "gpu_training.py"


def the_benchmark_runs_anywhere_and_ends_in_json(folder):
    command = [sys.executable, BENCHMARK, "--tiny", "--variants", "plain,recipe", "--folder", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    for network, unit in (("gpt2", "tokens"), ("resnet50", "images")):
        assert told[f"{network}_plain_{unit}_per_s"] > 0
        assert told[f"{network}_x_plain"] > 0
        assert told[f"{network}_recipe_same_loss"]
