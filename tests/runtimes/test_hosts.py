"""A host is described by what decides how fast a model is on it."""

from dataclasses import replace
from pathlib import Path

import pytest

from falaj.runtimes.hosts import KNOWN_SETS, Host, kind_of, shown, this_host

HOST = Host(cpu="Fast 9000", instruction_sets=("avx2", "avx512_vnni"), cores=4, memory_mib=8192)
INTEL = """processor : 0
cpu family : 6
model : 143
model name : Intel(R)  Xeon(R) Platinum
flags : fpu avx2 avx512f avx512_vnni amx_int8 sse4_2

processor : 1
model name : another
"""
ARM = "processor : 0\nFeatures : fp asimd asimddp bf16 i8mm crc32\nCPU implementer : 0x41\nCPU part : 0xd40\n"


def described(folder: Path, text: str) -> Host:
    (folder / "cpuinfo").write_text(text)
    return this_host(folder)


def test_this_host_is_known():
    host = this_host()
    assert host.cpu
    assert host.cores >= 1
    assert host.memory_mib > 0
    assert set(host.instruction_sets) <= KNOWN_SETS
    assert host.libraries["onnxruntime"][:1].isdigit()


def test_a_processor_is_told_by_its_name_and_what_engines_choose_kernels_by(tmp_path):
    host = described(tmp_path, INTEL)
    assert host.cpu == "Intel(R) Xeon(R) Platinum, cpu family 6, model 143"
    assert host.instruction_sets == ("amx_int8", "avx2", "avx512_vnni", "avx512f")
    assert host.multiplies_int8
    assert not host.multiplies_bf16


def test_an_arm_processor_is_told_by_its_numbers(tmp_path):
    host = described(tmp_path, ARM)
    assert host.cpu == "ARM 0x41 part 0xd40"
    assert host.instruction_sets == ("asimd", "asimddp", "bf16", "i8mm")
    assert host.multiplies_int8
    assert host.multiplies_bf16


def test_a_gpu_is_told_by_its_name(tmp_path):
    card = tmp_path / "driver" / "nvidia" / "gpus" / "0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 5\n")
    assert this_host(tmp_path).gpu == "NVIDIA H200"


def test_where_nobody_tells_a_host_is_described_all_the_same(tmp_path):
    host = this_host(tmp_path / "nothing")
    assert host.cpu
    assert host.instruction_sets == ()
    assert host.gpu == ""


@pytest.mark.parametrize("change", [{"memory_mib": 1}, {"cores": 64}, {"libraries": {"openvino": "1"}}])
def test_hosts_on_which_a_model_takes_as_long_are_of_one_kind(change):
    assert kind_of(replace(HOST, **change)) == kind_of(HOST)


@pytest.mark.parametrize("change", [{"cpu": "Slow 1"}, {"instruction_sets": ("avx2",)}, {"gpu": "NVIDIA H200"}])
def test_hosts_on_which_it_does_not_are_of_several(change):
    assert kind_of(replace(HOST, **change)) != kind_of(HOST)
    assert len(kind_of(HOST)) == 16


def test_a_host_is_shown_in_one_line():
    assert shown(replace(HOST, gpu="NVIDIA H200")) == "Fast 9000 (avx2, avx512_vnni), 4 cores, 8192 MiB, NVIDIA H200"
