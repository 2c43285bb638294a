"""Where jobs go, rule by rule."""

import pytest

from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import Placement, Seat
from tests.jobs.scheduler.rooms import a_job, a_node, nodes, running


def hosts_of(placement: Placement | None) -> list[str]:
    assert placement is not None
    return [seat.node for seat in placement]


def test_a_zone_is_absolute_however_much_room_there_is_elsewhere() -> None:
    room = Room([a_node("far", zone="far"), a_node("here", cpu_milli=500)])
    assert room.find(a_job(), 1) is None
    assert hosts_of(room.find(a_job(zones=("here", "far")), 1)) == ["far"]


def test_a_job_that_names_no_zone_runs_nowhere() -> None:
    assert Room(nodes(1)).find(a_job(zones=()), 1) is None


def test_only_cards_of_the_models_asked_for_are_given() -> None:
    room = Room([a_node(cards=("T4", "A100", "A100")), a_node("n1", cards=("V100",))])
    assert room.find(a_job(gpus=1, models=("A100",)), 1) == (Seat(node="n0", cards=(1,)),)
    assert room.find(a_job(gpus=1, gpu_milli=300, models=("V100", "H100")), 1) == (Seat(node="n1", cards=(0,)),)
    assert room.find(a_job(gpus=3, models=("A100",)), 1) is None


def test_a_task_of_several_cards_gets_them_of_one_model_where_it_can() -> None:
    room = Room([a_node(cards=("T4", "A100", "A100", "T4", "T4"))])
    assert room.find(a_job(gpus=2), 1) == (Seat(node="n0", cards=(1, 2)),)
    assert room.find(a_job(gpus=3), 1) == (Seat(node="n0", cards=(0, 3, 4)),)
    assert room.find(a_job(gpus=4), 1) == (Seat(node="n0", cards=(0, 1, 2, 3)),)


def test_parts_of_two_projects_share_a_card_by_mps() -> None:
    room = Room([a_node(cards=("A100",))])
    for project in "ab":
        job = a_job(project, project=project, gpus=1, gpu_milli=500)
        placement = room.find(job, 1)
        assert placement == (Seat(node="n0", cards=(0,)),)
        room.take(job, placement)
    assert room.find(a_job(gpus=1, gpu_milli=10), 1) is None


def test_a_cards_time_is_shared_within_one_project_alone() -> None:
    room = Room([a_node(cards=("A100", "A100"), sharing=("whole", "mps", "time"))])
    first = a_job("a", project="a", gpus=1, gpu_milli=200, sharing="time")
    room.take(first, (Seat(node="n0", cards=(0,)),))
    other = a_job("b", project="b", gpus=1, gpu_milli=200, sharing="time")
    assert room.find(other, 1) == (Seat(node="n0", cards=(1,)),)
    assert room.find(a_job("c", project="a", gpus=1, gpu_milli=200, sharing="time"), 1) == (Seat(node="n0", cards=(0,)),)
    assert room.find(a_job("d", project="a", gpus=1, gpu_milli=200), 1) == (Seat(node="n0", cards=(1,)),)
    room.give(first, (Seat(node="n0", cards=(0,)),))
    assert room.find(other, 1) == (Seat(node="n0", cards=(0,)),)


def test_a_whole_card_is_never_given_beside_a_part_and_a_part_never_beside_a_whole_card() -> None:
    room = Room([a_node(cards=("A100", "A100"))])
    room.take(a_job("a", gpus=1, gpu_milli=10), (Seat(node="n0", cards=(0,)),))
    whole = a_job("b", gpus=1)
    assert room.find(whole, 1) == (Seat(node="n0", cards=(1,)),)
    room.take(whole, (Seat(node="n0", cards=(1,)),))
    assert room.find(a_job("c", gpus=1, gpu_milli=500), 1) == (Seat(node="n0", cards=(0,)),)
    assert room.find(whole, 1) is None


def test_a_part_that_shares_with_nobody_takes_the_card() -> None:
    room = Room([a_node(cards=("A100",))])
    alone = a_job("a", gpus=1, gpu_milli=100, sharing="whole")
    placement = room.find(alone, 1)
    assert placement is not None
    room.take(alone, placement)
    assert room.find(a_job("b", gpus=1, gpu_milli=100), 1) is None


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        (("mps",), {"gpu_milli": 1000}),
        (("whole",), {"gpu_milli": 500}),
        (("whole", "mps"), {"gpu_milli": 500, "sharing": "time"}),
    ],
)
def test_cards_are_shared_only_as_their_host_offers(offered: tuple[str, ...], asked: dict[str, object]) -> None:
    assert Room([a_node(cards=("A100",), sharing=offered)]).find(a_job(gpus=1, **asked), 1) is None
    assert Room([a_node(cards=("A100",), sharing=("whole", "mps", "time"))]).find(a_job(gpus=1, **asked), 1) is not None


def test_a_gang_that_must_be_on_one_host_is_on_one_host_or_nowhere() -> None:
    room = Room([*nodes(3, cards=("A100",) * 2), a_node("large", cards=("A100",) * 8)])
    assert hosts_of(room.find(a_job(gpus=1, topology="host"), 7)) == ["large"] * 7
    assert room.find(a_job(gpus=1, topology="host"), 9) is None


def test_a_gang_that_must_be_in_one_rack_is_in_one_rack_or_nowhere() -> None:
    room = Room(
        [
            a_node(f"{rack}{number}", rack=rack, cards=("A100",) * 2)
            for rack in "ab"
            for number in range(2 if rack == "a" else 3)
        ]
    )
    assert {name[0] for name in hosts_of(room.find(a_job(gpus=1, topology="rack"), 5))} == {"b"}
    assert {name[0] for name in hosts_of(room.find(a_job(gpus=1, topology="rack"), 4))} == {"a"}
    assert room.find(a_job(gpus=1, topology="rack"), 7) is None


def test_racks_of_two_zones_are_two_even_if_they_are_called_the_same() -> None:
    room = Room([a_node(zone, zone=zone, rack="r1", cards=("A100",)) for zone in ("east", "west")])
    assert room.find(a_job(gpus=1, topology="rack", zones=("east", "west")), 2) is None
    assert room.find(a_job(gpus=1, zones=("east", "west")), 2) is not None


def test_hosts_that_name_no_rack_are_not_taken_for_neighbours() -> None:
    room = Room(nodes(2, cards=("A100",)))
    assert room.find(a_job(gpus=1, topology="rack"), 2) is None
    assert room.find(a_job(gpus=1, topology="rack"), 1) is not None


def test_a_spread_gang_has_a_host_for_each_task_and_doubles_up_only_when_there_are_no_more() -> None:
    room = Room(nodes(3, cpu_milli=4000))
    assert sorted(hosts_of(room.find(a_job(topology="spread"), 3))) == ["n0", "n1", "n2"]
    five = hosts_of(room.find(a_job(topology="spread"), 5))
    assert sorted(five) == ["n0", "n0", "n1", "n1", "n2"]
    assert sorted(five[:3]) == ["n0", "n1", "n2"]
    assert room.find(a_job(topology="spread"), 13) is None
    uneven = Room([a_node("n0", cpu_milli=1000), a_node("n1", cpu_milli=5000)])
    assert sorted(hosts_of(uneven.find(a_job(topology="spread"), 4))) == ["n0", "n1", "n1", "n1"]


def test_a_gang_is_as_compact_as_it_can_be() -> None:
    room = Room([*nodes(6, cards=("A100",) * 2), a_node("big", cards=("A100",) * 4), a_node("full", cards=("A100",) * 8)])
    assert set(hosts_of(room.find(a_job(gpus=1), 8))) == {"full"}
    assert sorted(set(hosts_of(room.find(a_job(gpus=1), 11)))) == ["big", "full"]


def test_a_gang_that_no_host_holds_prefers_one_rack_then_one_zone() -> None:
    racks = [
        a_node(f"{zone}{rack}{n}", zone=zone, rack=rack, cards=("A100",)) for zone in "xy" for rack in "ab" for n in range(2)
    ]
    room = Room([*nodes(2, zone="x", cards=("A100",)), *racks])
    two = hosts_of(room.find(a_job(gpus=1, zones=("x", "y")), 2))
    assert len({name[:2] for name in two}) == 1
    assert not any(name.startswith("n") for name in two)
    assert {name[0] for name in hosts_of(room.find(a_job(gpus=1, zones=("x", "y")), 4))} == {"y"}


def test_labels_are_kept_apart_in_both_directions() -> None:
    room = Room(nodes(2))
    shy, loud = a_job("shy", label="shy", apart_from=("loud",)), a_job("loud", label="loud")
    room.take(shy, (Seat(node="n0"),))
    assert hosts_of(room.find(loud, 1)) == ["n1"]
    room.give(shy, (Seat(node="n0"),))
    room.take(loud, (Seat(node="n0"),))
    assert hosts_of(room.find(shy, 1)) == ["n1"]
    assert room.find(shy, 1, without=[running(loud, (Seat(node="n0"),))]) == (Seat(node="n0"),)


def test_what_other_projects_call_their_jobs_keeps_nobody_apart() -> None:
    room = Room(nodes(1))
    room.take(a_job("theirs", project="other", label="loud", apart_from=("shy",)), (Seat(node="n0"),))
    assert room.find(a_job("ours", label="shy", apart_from=("loud",)), 1) is not None


def test_a_jobs_own_tasks_are_not_kept_apart_from_each_other() -> None:
    room = Room(nodes(1))
    replica = a_job("a", label="replica", apart_from=("replica",))
    placement = room.find(replica, 2)
    assert hosts_of(placement) == ["n0", "n0"]
    room.take(replica, placement or ())
    assert room.find(replica, 1) is not None
    assert room.find(a_job("b", label="replica", apart_from=("replica",)), 1) is None


def test_a_host_that_drains_takes_nothing_new_and_keeps_what_it_has() -> None:
    room = Room(nodes(1))
    job = a_job()
    room.take(job, (Seat(node="n0"),))
    room.put(a_node("n0", open=False))
    assert room.find(job, 1) is None
    assert room.free()["cpu"] == 0
    assert room.total()["cpu"] == 64_000
    room.put(a_node("n0"))
    assert room.free()["cpu"] == 63_000
    room.give(job, (Seat(node="n0"),))
    assert room.free() == room.total()


def test_a_host_that_shrank_below_what_it_runs_takes_nothing_until_it_is_given_back() -> None:
    room = Room([a_node(cards=("A100",) * 4)])
    job = a_job(gpus=4, cpu_milli=40_000)
    room.take(job, (Seat(node="n0", cards=(0, 1, 2, 3)),))
    room.put(a_node(cpu_milli=32_000, cards=("A100",)))
    assert room.find(a_job("k"), 1) is None
    assert room.free()["cpu"] == -8000
    assert room.free()["gpu"] == 0
    room.give(job, (Seat(node="n0", cards=(0, 1, 2, 3)),))
    assert room.find(a_job("k", gpus=1), 1) == (Seat(node="n0", cards=(0,)),)
    assert room.find(a_job("k", gpus=2), 1) is None
    room.put(a_node(cards=("A100",) * 2))
    assert room.find(a_job("k", gpus=2), 1) == (Seat(node="n0", cards=(0, 1)),)


def test_what_is_held_on_a_host_that_is_gone_can_still_be_given_back() -> None:
    room = Room(nodes(2))
    job, placement = a_job(), (Seat(node="n0"), Seat(node="n1"))
    room.take(job, placement)
    room.drop("n0")
    assert room.total()["cpu"] == 64_000
    assert hosts_of(room.find(a_job("k"), 3)) == ["n1"] * 3
    room.put(a_node("n0"))
    assert room.free()["cpu"] == 126_000
    room.drop("n0")
    room.give(job, placement)
    assert room.free() == room.total()
    assert "n0" not in hosts_of(room.find(a_job("k"), 3))


def test_what_runs_on_a_host_that_was_never_named_counts_when_it_is() -> None:
    room = Room()
    job = a_job(gpus=1)
    room.take(job, (Seat(node="n0", cards=(1,)),))
    assert room.find(job, 1) is None
    assert room.could_ever(job, 1) != ""
    room.put(a_node("n0", cards=("A100",) * 2))
    assert room.find(job, 1) == (Seat(node="n0", cards=(0,)),)
    room.give(job, (Seat(node="n0", cards=(1,)),))
    assert room.free() == room.total()


def test_hosts_can_be_avoided_for_one_question() -> None:
    room = Room(nodes(3))
    assert hosts_of(room.find(a_job(), 1, avoiding=("n0", "n1"))) == ["n2"]
    assert room.find(a_job(), 1, avoiding=("n0", "n1", "n2", "unknown")) is None
    assert set(hosts_of(room.find(a_job(topology="spread"), 2, avoiding={"n1"}))) == {"n0", "n2"}
    assert hosts_of(room.find(a_job(), 1)) == ["n0"]


def test_an_empty_room_has_no_seats() -> None:
    assert Room().find(a_job(), 1) is None
    assert Room().find(a_job(gpus=1, gpu_milli=500), 3) is None
    assert Room().free() == {"cpu": 0, "memory": 0, "io": 0, "gpu": 0}


@pytest.mark.parametrize(
    "asked",
    [
        {"cpu_milli": -1},
        {"memory_mib": -1},
        {"io": -1},
        {"gpus": -1},
        {"gpus": 2, "gpu_milli": 500},
        {"gpus": 1, "gpu_milli": 0},
    ],
)
def test_a_senseless_shape_gets_no_seat(asked: dict[str, int]) -> None:
    room = Room(nodes(1, cards=("A100",) * 2, io=10))
    assert room.find(a_job(**asked), 1) is None
    assert room.could_ever(a_job(**asked), 1) != ""


def test_absurd_amounts_get_no_seat_and_are_told_why() -> None:
    room = Room(nodes(1))
    for job, count in ((a_job(cpu_milli=10**30), 1), (a_job(), 10**30), (a_job(cpu_milli=10**12, memory_mib=0), 10**12)):
        assert room.find(job, count) is None
        assert room.could_ever(job, count) != ""


def test_no_tasks_have_no_seats() -> None:
    assert Room(nodes(1)).find(a_job(), 0) is None


@pytest.mark.parametrize("topology", ["any", "spread", "rack"])
def test_tasks_of_one_job_are_never_on_hosts_of_two_engines(topology: str):
    hosts = [a_node(f"{engine}{number}", engine=engine, cpu_milli=2000, rack="r") for engine in "ab" for number in range(2)]
    room = Room([*hosts, a_node("c0", engine="c", cpu_milli=3000, rack="r")])
    for count in (2, 3, 4):
        placement = room.find(a_job(topology=topology), count)
        assert placement is not None
        assert len(placement) == count
        assert len({seat.node[0] for seat in placement}) == 1
    assert room.find(a_job(topology=topology), 5) is None
    refusal = room.could_ever(a_job(topology=topology), 5)
    assert "It asks for 5 tasks at once, and an idle cluster seats 4" in refusal
    assert room.could_ever(a_job(topology=topology), 4) == ""
