"""What a job is told that no host could ever take."""

from typing import Any

import pytest

from falaj.jobs.scheduler.room import Room
from tests.jobs.scheduler.rooms import a_job, a_node

ROOM = Room(
    [
        a_node("n0", cards=("T4", "T4"), io=100, rack="r1"),
        a_node("n1", cards=("A100",) * 4, cpu_milli=16_000, io=100, rack="r1", sharing=("whole",)),
        a_node("n2", zone="there", rack="r2", open=False),
    ]
)


@pytest.mark.parametrize(
    ("asked", "count", "sentence"),
    [
        ({}, 0, "It asks for 0 tasks; ask for at least one."),
        ({"cpu_milli": -5}, 1, "It asks for less than nothing of CPU (-5); ask for 0 or more."),
        (
            {"gpus": 1, "gpu_milli": 1500},
            1,
            "It asks for 1500 thousandths of a GPU; ask for 1 to 1000, and for more cards with `gpus`.",
        ),
        ({"gpus": 2, "gpu_milli": 500}, 1, "It asks for parts of 2 cards; a task has a part of one card, or whole ones."),
        ({"zones": ()}, 1, "It names no zone that it may run in; name at least one."),
        ({"zones": ("eu", "us")}, 1, "No host is in eu or us; hosts are in here and there."),
        ({"zones": ("there",), "gpus": 1}, 1, "No host of its zones has a GPU."),
        ({"gpus": 1, "models": ("H100",)}, 1, "No host of its zones has a card of model H100; there are A100 and T4."),
        (
            {"gpus": 1, "gpu_milli": 500, "models": ("A100",)},
            1,
            "No card that it may use is shared by mps; ask for another sharing or for a whole card.",
        ),
        (
            {"cpu_milli": 65_000},
            1,
            "One task asks for 65 CPUs, and the largest host of its zones has 64 CPUs; ask for less.",
        ),
        (
            {"gpus": 5},
            1,
            (
                "One task asks for 5 GPUs that it may use, and the largest host of its zones has 4 GPUs that it may use; "
                "ask for less."
            ),
        ),
        (
            {"gpus": 4, "cpu_milli": 32_000},
            1,
            "No host of its zones has enough CPU, memory, I/O and cards for one task all at once; ask for less of one of them.",
        ),
        (
            {"gpus": 1, "topology": "host"},
            5,
            "It asks for 5 tasks at once, and an idle cluster seats 4 on one host; ask for fewer or smaller ones.",
        ),
        (
            {"gpus": 1},
            7,
            "It asks for 7 tasks at once, and an idle cluster seats 6 in its zones; ask for fewer or smaller ones.",
        ),
        (
            {"topology": "rack", "zones": ("here", "there")},
            81,
            (
                "It asks for 81 tasks at once, and an idle cluster seats 80 in one rack (a host that names no rack is "
                "one of its own); ask for fewer or smaller ones."
            ),
        ),
    ],
)
def test_the_sentence_says_what_stands_in_the_way(asked: dict[str, Any], count: int, sentence: str) -> None:
    assert ROOM.could_ever(a_job(**asked), count) == sentence


def test_a_cluster_without_hosts_says_so() -> None:
    assert Room().could_ever(a_job(), 1) == "There is no host yet; add one, or wait until one joins."


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({}, 80),
        ({"gpus": 4}, 1),
        ({"gpus": 1, "gpu_milli": 500}, 4),
        ({"gpus": 1, "topology": "rack"}, 6),
        ({"zones": ("there",)}, 64),  # its host drains: it waits, it is not refused
        ({"cpu_milli": 0, "memory_mib": 0}, 10_000),
    ],
)
def test_nothing_is_said_against_what_an_idle_cluster_takes(asked: dict[str, Any], count: int) -> None:
    assert ROOM.could_ever(a_job(**asked), count) == ""
