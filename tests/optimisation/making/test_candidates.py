"""What is tried with a model follows from what it is, and from what the machine can."""

import ast
import importlib.metadata
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from falaj.client.optimising.choosing import narrowed
from falaj.client.optimising.steps import names_there
from falaj.optimisation.making import steps as making_steps
from falaj.optimisation.making.candidates import planned
from falaj.optimisation.making.profiles import Profile, profile_of
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.operations.words import STEP_WORDS
from falaj.runtimes.hosts import Host
from tests.optimisation.making.models import booster, conv, transformer, two_inputs

SERVER = Host(cpu="x", instruction_sets=("avx2", "avx512_bf16", "avx512_vnni"), cores=4, memory_mib=8192, gpu="NVIDIA H200")
OLD = Host(cpu="y", instruction_sets=("avx2",), cores=2, memory_mib=4096)
ROOT = Path(__file__).parents[3]
ALL = frozenset([*STEPS, "prune", "sparsify", "distil", "torch-program", "distil:given"])


def plan(profile: Profile, target="cpu", host=SERVER, available=ALL):
    return planned(profile, target=target, host=host, available=available)


def steps(found):
    return [one.steps for one in found.candidates]


@pytest.mark.parametrize("target", ["cpu", "gpu", "edge"])
@pytest.mark.parametrize("made", [conv, transformer, two_inputs, booster])
def test_every_candidate_has_a_name_of_its_own_known_steps_and_a_reason(made, target):
    found = plan(profile_of(made()), target)
    everyone = [*found.candidates, *(one for one, _ in found.skipped)]
    assert found.candidates
    assert len({one.name for one in everyone}) == len(everyone)
    for one in everyone:
        assert {step.partition(":")[0] for step in one.steps} <= ALL
        assert one.why.endswith(".")
        assert len(one.why) < 140


def test_every_step_there_is_can_be_asked_for():
    assert {*names_there(student=False)} == {*STEP_WORDS}


def test_cheap_and_promising_candidates_come_first():
    assert steps(plan(profile_of(conv())))[:2] == [("fold",), ("int8",)]
    found = steps(plan(profile_of(transformer())))
    assert found.index(("openvino", "openvino-int8")) < found.index(("int8",))
    assert [kind.startswith(("distil", "prune")) for kind, *_ in found].index(True) > 4


def test_trees_are_made_fewer_in_steps_and_into_other_forms():
    found = steps(plan(profile_of(booster("binary", 15, 60))))
    assert found[:2] == [("trees-onnx",), ("trees-masks",)]
    assert ("trees:30", "trees-masks") in found
    assert ("trees:12", "trees-onnx") in found
    assert not any("int8" in kinds for kinds in found)


def test_what_the_processor_cannot_do_is_left_out_with_the_reason():
    found = plan(profile_of(conv()), host=OLD)
    assert not any("openvino-bf16" in kinds for kinds in steps(found))
    skipped = {one.name: reason for one, reason in found.skipped}
    assert "bfloat16" in skipped["openvino-bf16"]
    assert any("openvino-bf16" in kinds for kinds in steps(plan(profile_of(conv()))))


@pytest.mark.parametrize("made", [conv, transformer, two_inputs])
def test_two_threads_are_tried_where_the_job_has_two_cores(made):
    (wide,) = (one for one in steps(plan(profile_of(made()))) if "settings:threads=2" in one)
    assert wide[:-1] in steps(plan(profile_of(made())))  # what it is held against
    found = plan(profile_of(made()), host=replace(SERVER, cores=1))
    assert wide not in steps(found)
    assert {one.steps: reason for one, reason in found.skipped}[wide] == "The job has one core; --cpus 2 gives it another."


def test_what_is_not_installed_is_left_out_with_what_to_install():
    found = plan(profile_of(conv()), available=frozenset(STEPS) - {"openvino-int8"})
    skipped = {one.name: reason for one, reason in found.skipped}
    assert skipped["openvino-int8"] == "There is no step openvino-int8 here: pip install 'falaj[optimise]'."
    assert skipped["prune-0.5-int8"].endswith("pip install 'falaj[train]'.")


def test_eight_bits_need_nothing_of_what_weights_alone_need():
    """Asked of a fresh process: here the library was imported long ago."""
    text = """import sys
sys.modules["onnx_ir"] = None
from falaj.optimisation.making import ort_quantising, steps
print(sorted({"int8", "int8-weights", "int4-weights"} & set(steps.STEPS)))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.stdout == "['int8']\n", done.stderr


def test_all_libraries_of_the_steps_are_brought_by_the_extra_that_is_named():
    needed = {library for _, _, libraries in making_steps._THERE.values() for library in libraries}
    for place in ("falaj/optimisation", "falaj/client/optimising"):
        for file in (ROOT / place).rglob("*.py"):
            for one in ast.walk(ast.parse(file.read_text())):
                names = [each.name for each in one.names] if isinstance(one, ast.Import) else []
                names += [one.module or ""] if isinstance(one, ast.ImportFrom) else []
                needed |= {name.partition(".")[0] for name in names}
    needed -= {*sys.stdlib_module_names, "falaj"}
    assert {"numpy", "onnx_ir", "nncf"} <= needed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    brought = _with_theirs([*project["dependencies"], *extras["optimise"], *extras["runtimes"]])
    packages = importlib.metadata.packages_distributions()
    for library in needed:
        assert brought & {canonicalize_name(one) for one in packages[library]}, library


def _with_theirs(requirements: Iterable[str]) -> set[str]:
    """Names of the packages, and of those that they bring themselves."""
    waiting, found = [*requirements], set()
    while waiting:
        one = Requirement(waiting.pop())
        name = canonicalize_name(one.name)
        if name in found or name == "falaj" or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += importlib.metadata.requires(name) or []
    return found


def test_a_student_is_taught_only_where_one_was_given():
    found = plan(profile_of(conv()), available=ALL - {"distil:given"})
    assert ("distil:mobilenet", "int8") in steps(found)
    assert ("distil:mobilenet",) in steps(found)  # a small student may lose more by eight bits than they gain
    assert ("distil:given", "int8") not in steps(found)
    assert "Nobody gave a student to be taught." in {reason for _, reason in found.skipped}


def test_a_student_that_trees_would_have_to_teach_is_told_why_it_is_not():
    profile = profile_of(booster("binary", 15, 60))
    ((student, reason),) = plan(profile, available=frozenset([*STEPS, "distil", "distil:given"])).skipped
    assert student.steps == ("distil:given",)
    assert reason.startswith("Trees teach no network")
    assert not plan(profile, available=ALL - {"distil:given"}).skipped
    asked = narrowed(plan(profile), ("distil:given", "trees-masks"), "")
    assert [(one.steps, bool(one.skipped)) for one in asked] == [(("trees-masks",), False), (("distil:given",), True)]


def test_a_gpu_program_needs_a_gpu():
    profile = profile_of(conv())
    assert steps(plan(profile, "gpu"))[0] == ("torch-program:bf16",)
    assert ("torch-program:bf16",) not in steps(plan(profile, "gpu", OLD))


def test_devices_get_small_files_first():
    found = steps(plan(profile_of(conv()), "edge"))
    assert found[0] == ("int8",)
    assert ("sparsify:0.8", "int8") in found


@pytest.mark.parametrize("made", [conv, transformer, two_inputs])
def test_devices_get_litert_models_and_nobody_else_does(made):
    found = steps(plan(profile_of(made()), "edge"))
    assert found[1] == ("litert-int8",)
    assert ("litert",) in found
    assert found.index(("prune:0.5", "litert-int8")) > found.index(("distil:given", "int8"))
    for target in ("cpu", "gpu"):
        others = plan(profile_of(made()), target)
        everyone = [*others.candidates, *(one for one, _ in others.skipped)]
        assert not any(step.startswith("litert") for one in everyone for step in one.steps)


def test_trees_have_no_form_for_litert():
    assert not any(step.startswith("litert") for kinds in steps(plan(profile_of(booster()), "edge")) for step in kinds)


def test_a_model_of_few_bits_is_not_rounded_again():
    profile = replace(profile_of(conv()), operators={"QuantizeLinear": 4, "Conv": 2})
    assert not any("int8" in kinds for kinds in steps(plan(profile)))
    assert not any({"litert", "litert-int8"} & set(kinds) for kinds in steps(plan(profile, "edge")))


def test_trees_that_are_too_large_for_tables_are_not_planned_as_such():
    profile = replace(profile_of(booster("binary", 15, 60)), leaves=100)
    assert not any("trees-masks" in kinds for kinds in steps(plan(profile)))
