"""What a hole is worth, what is learned from what comes, and how well it packs."""

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.jobs.scheduler.holes import Cutting
from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import Seat
from tests.jobs.scheduler.rooms import a_job, a_node, nodes

mixes = st.dictionaries(
    st.integers(5, 99).map(lambda units: units * 10), st.integers(1, 1000).map(float), min_size=1, max_size=8
)


def test_where_nothing_is_known_every_thousandth_is_worth_the_same() -> None:
    assert Cutting().worth({}) == pytest.approx(np.arange(1001) / 1000, abs=1e-6)


def test_a_hole_that_nothing_usual_fits_is_worth_nothing() -> None:
    worth = Cutting().worth({810: 10, 160: 1})
    assert worth[190] == 0
    assert worth[810] == worth[1000] == 1


def test_a_hole_is_worth_what_its_best_filling_saves() -> None:
    worth = Cutting().worth({650: 10, 320: 40})  # the one beside two thirds of the other, or three of those to a card
    assert worth[650] == pytest.approx(2 / 3, abs=1e-5)
    assert worth[320] == worth[630] == pytest.approx(1 / 3, abs=1e-5)


@given(mixes)
@settings(max_examples=100)
def test_a_larger_hole_is_never_worth_less_and_two_holes_never_more_than_one_of_both(mix: dict[int, float]) -> None:
    worth = Cutting().worth(mix)[::10]
    assert np.all(np.diff(worth) >= 0)
    assert (worth[0], worth[100]) == (0, 1)
    for one in range(1, 100, 7):
        for other in range(1, 100 - one, 7):
            assert worth[one] + worth[other] <= worth[one + other] + 1e-5


@given(st.dictionaries(st.sampled_from([200, 250, 330, 400, 510, 620, 810]), st.integers(1, 50), min_size=1, max_size=4))
@settings(max_examples=60)
def test_no_packing_needs_fewer_cards_than_the_prices_say(mix: dict[int, int]) -> None:
    worth = Cutting().worth({size: float(count) for size, count in mix.items()})
    sizes = list(mix)
    cutting = [combination for combination in product(range(6), repeat=len(sizes)) if _filled(combination, sizes) <= 1000]
    most = max(sum(many * worth[size] for many, size in zip(combination, sizes, strict=True)) for combination in cutting)
    assert most <= 1 + 1e-5
    least = sum(count * worth[size] for size, count in mix.items())
    assert least >= sum(size * count for size, count in mix.items()) / 1000 - 1e-4 * sum(mix.values())


def _filled(combination: tuple[int, ...], sizes: list[int]) -> int:
    return sum(many * size for many, size in zip(combination, sizes, strict=True))


@given(st.lists(mixes, min_size=2, max_size=6))
@settings(max_examples=60)
def test_prices_after_other_mixes_are_worth_as_much_as_prices_from_the_start(several: list[dict[int, float]]) -> None:
    used = Cutting()
    for mix in several:
        again, fresh = used.worth(mix), Cutting().worth(mix)
        total = sum(mix.values())
        assert sum(count * again[size] for size, count in mix.items()) == pytest.approx(
            sum(count * fresh[size] for size, count in mix.items()), abs=1e-4 * total
        )


def learned(room: Room, *kinds: tuple[int, dict[str, object]]) -> Room:
    for count, asked in kinds:
        room.saw(a_job(**asked).shape, count)
    return room


def test_parts_go_beside_parts_so_that_whole_cards_stay_free() -> None:
    room = Room(nodes(2, cards=("A100",) * 2))
    room.take(a_job("a", gpus=1, gpu_milli=500), (Seat(node="n1", cards=(1,)),))
    assert room.find(a_job("b", gpus=1, gpu_milli=500), 1) == (Seat(node="n1", cards=(1,)),)


def test_a_small_part_fills_the_hole_that_nothing_else_fits() -> None:
    asked = {"gpus": 1}
    room = learned(
        Room([a_node(cards=("A100",) * 3)]),
        *((40, asked | {"gpu_milli": 810}), (40, asked | {"gpu_milli": 470}), (5, asked | {"gpu_milli": 160})),
    )
    room.take(a_job("a", gpus=1, gpu_milli=470), (Seat(node="n0", cards=(0,)),))
    room.take(a_job("b", gpus=1, gpu_milli=810), (Seat(node="n0", cards=(2,)),))
    assert room.find(a_job("c", gpus=1, gpu_milli=160), 1) == (Seat(node="n0", cards=(2,)),)
    assert room.find(a_job("d", gpus=1, gpu_milli=470), 1) == (Seat(node="n0", cards=(0,)),)


def test_work_without_gpus_goes_where_no_card_is_left_without_cpu() -> None:
    room = Room([a_node("cards", cpu_milli=16_000, cards=("A100",) * 2), a_node("more", cpu_milli=96_000, cards=("A100",) * 2)])
    learned(room, (50, {"gpus": 1, "cpu_milli": 8000}))
    assert room.find(a_job(cpu_milli=8000), 1) == (Seat(node="more"),)
    room.put(a_node("none"))
    assert room.find(a_job(cpu_milli=8000), 1) == (Seat(node="none"),)


def test_a_job_that_needs_much_cpu_goes_to_the_host_that_has_it_to_spare() -> None:
    room = Room([a_node("lean", cpu_milli=16_000, cards=("A100",) * 2), a_node("rich", cpu_milli=96_000, cards=("A100",) * 2)])
    learned(room, (50, {"gpus": 1, "cpu_milli": 8000}))
    assert room.find(a_job(gpus=1, cpu_milli=14_000), 1) == (Seat(node="rich", cards=(0,)),)
    assert room.find(a_job(gpus=1, cpu_milli=4000), 1) == (Seat(node="lean", cards=(0,)),)


def test_cards_of_a_model_that_others_need_are_kept_for_them() -> None:
    room = Room([a_node("n0", cards=("A100",) * 2), *[a_node(f"n{number}", cards=("T4",) * 2) for number in range(1, 4)]])
    assert room.find(a_job(gpus=1), 1) == (Seat(node="n0", cards=(0,)),)
    learned(room, (30, {"gpus": 1, "models": ("A100",)}), (70, {"gpus": 1}))
    assert room.find(a_job(gpus=1), 1) == (Seat(node="n1", cards=(0,)),)
    assert room.find(a_job(gpus=1, models=("A100",)), 1) == (Seat(node="n0", cards=(0,)),)


def test_large_hosts_stay_whole_while_small_ones_have_room() -> None:
    room = Room([a_node("a", cards=("A100",) * 8), a_node("b", cards=("A100",) * 2)])
    assert room.find(a_job(gpus=1), 1) == (Seat(node="b", cards=(0,)),)


def test_what_was_usual_long_ago_counts_less_than_what_is_usual_now() -> None:
    room = Room([a_node(cards=("A100",) * 2)])
    room.take(a_job("a", gpus=1, gpu_milli=400), (Seat(node="n0", cards=(0,)),))
    learned(room, (30_000, {"gpus": 1, "gpu_milli": 600}), (3000, {"gpus": 1, "gpu_milli": 500}))
    small = a_job("b", gpus=1, gpu_milli=300)
    assert room.find(small, 1) == (Seat(node="n0", cards=(1,)),)  # the hole of 600 is just what comes next
    for _ in range(30):
        learned(room, (20_000, {"gpus": 1, "gpu_milli": 300}), (20_000, {"gpus": 1}))
    assert room.find(small, 1) == (Seat(node="n0", cards=(0,)),)


def unallocated(room: Room, arriving: list[dict[str, int]], *, learning: bool) -> int:
    """Thousandths of cards that are not given out when all have asked."""
    for number, asked in enumerate(arriving):
        job = a_job(f"j{number}", **asked)
        if learning:
            room.saw(job.shape)
        placement = room.find(job, 1)
        if placement is not None:
            room.take(job, placement)
    return room.free()["gpu"]


def test_a_learned_mix_packs_tighter_than_an_unknown_one() -> None:
    """As in the openb trace: parts that do not add up, hosts with little CPU for each card, and work that needs no card."""
    chance = random.Random(5)
    kinds = [(1000, 11_000), (470, 14_000), (650, 12_000), (320, 4000), (240, 4000), (0, 16_000)]
    drawn = chance.choices(kinds, weights=[40, 10, 10, 12, 10, 14], k=860)
    arriving = [{"gpus": milli > 0, "gpu_milli": milli, "cpu_milli": cpu} for milli, cpu in drawn]
    lean = [a_node(f"lean{number}", cpu_milli=96_000, cards=("G2",) * 8) for number in range(50)]
    rich = [a_node(f"rich{number}", cpu_milli=104_000, cards=("T4",) * 2) for number in range(50)]
    guessed = unallocated(Room(lean + rich), arriving, learning=False)
    assert unallocated(Room(lean + rich), arriving, learning=True) < 0.7 * guessed
