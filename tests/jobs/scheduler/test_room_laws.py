"""What holds whatever comes, in whatever order, on whatever hosts."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from falaj.jobs.scheduler.room import Room
from falaj.jobs.scheduler.values import Job, Node, Placement
from tests.jobs.scheduler.rooms import Held, a_job, a_node, complaints, running, seats_on

MODELS = ("T4", "A100")
LABELS = ("red", "blue")

hosts = st.fixed_dictionaries(
    {
        "zone": st.sampled_from(["here", "there"]),
        "rack": st.sampled_from(["", "r1", "r2"]),
        "cpu_milli": st.sampled_from([2000, 5000, 8000]),
        "memory_mib": st.sampled_from([3000, 8000]),
        "io": st.sampled_from([0, 5]),
        "cards": st.lists(st.sampled_from(MODELS), max_size=4).map(tuple),
        "open": st.sampled_from([True, True, True, False]),
        "sharing": st.sampled_from([("whole", "mps"), ("whole", "mps", "time"), ("mps", "time"), ("whole",)]),
    }
)
shapes = st.fixed_dictionaries(
    {
        "cpu_milli": st.sampled_from([0, 500, 1000, 3000]),
        "memory_mib": st.sampled_from([0, 700, 2000]),
        "io": st.sampled_from([0, 0, 2]),
    }
)
cards = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"gpus": st.integers(1, 3), "models": st.sampled_from([(), (), ("A100",), ("T4", "A100")])}),
    st.fixed_dictionaries(
        {
            "gpus": st.just(1),
            "gpu_milli": st.sampled_from([100, 190, 333, 470, 500, 810]),
            "models": st.sampled_from([(), (), ("A100",)]),
            "sharing": st.sampled_from(["mps", "mps", "time", "whole"]),
        }
    ),
)
rest = st.fixed_dictionaries(
    {
        "project": st.sampled_from(["p", "q"]),
        "zones": st.sampled_from([("here",), ("here", "there")]),
        "topology": st.sampled_from(["any", "any", "host", "rack", "spread"]),
        "label": st.sampled_from(["", "", *LABELS]),
        "apart_from": st.sampled_from([(), (), *[(label,) for label in LABELS]]),
    }
)
asks: st.SearchStrategy[dict[str, Any]] = st.builds(lambda shape, card, more: {**shape, **card, **more}, shapes, cards, rest)


class Rooms(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.nodes: dict[str, Node] = {}
        self.held: Held = []
        self.number = 0

    @initialize(given=st.lists(hosts, min_size=1, max_size=4))
    def build(self, given: list[dict[str, Any]]) -> None:
        for number, one in enumerate(given):
            self.put(a_node(f"n{number}", **one))

    def put(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.room.put(node)

    @rule(ask=asks, count=st.integers(1, 5))
    def start(self, ask: dict[str, Any], count: int) -> None:
        self.number += 1
        job = a_job(f"j{self.number}", **ask)
        self.room.saw(job.shape, count)
        placement = self.room.find(job, count)
        assert placement == self.room.find(job, count)
        if placement is None:
            assert not self.could_hold(job, count, self.held), f"there was room for {count} of {job}"
        else:
            self.check(job, count, placement)
            self.room.take(job, placement)
            self.held.append((job, placement))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        job, placement = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.room.give(job, placement)

    @precondition(lambda self: self.held)
    @rule(ask=asks, count=st.integers(1, 5), data=st.data())
    def without_is_the_same_as_giving_back(self, ask: dict[str, Any], count: int, data: st.DataObject) -> None:
        job = a_job("new", **ask)
        leaving = [one for one in self.held if data.draw(st.booleans())]
        before = self.room.find(job, count)
        supposed = self.room.find(job, count, without=[running(*one) for one in leaving])
        for one in leaving:
            self.room.give(*one)
        assert self.room.find(job, count) == supposed
        for one in leaving:
            self.room.take(*one)
        assert self.room.find(job, count) == before

    @rule(data=st.data())
    def drain_or_reopen(self, data: st.DataObject) -> None:
        node = self.nodes[data.draw(st.sampled_from(sorted(self.nodes)))]
        self.put(a_node(**{name: getattr(node, name) for name in Node.__value_fields__} | {"open": not node.open}))  # type: ignore[attr-defined]

    @invariant()
    def nothing_is_promised_twice_or_shared_wrongly(self) -> None:
        for node in self.nodes.values():
            assert not complaints(node, self.held)

    @invariant()
    def what_is_free_is_what_nobody_holds(self) -> None:
        free = self.room.free()
        open_nodes = {name: node for name, node in self.nodes.items() if node.open}
        used = sum(job.shape.cpu_milli for job, placement in self.held for seat in placement if seat.node in open_nodes)
        assert free["cpu"] == sum(node.cpu_milli for node in open_nodes.values()) - used
        parts = [
            1000 if job.shape.sharing == "whole" else job.shape.gpu_milli
            for job, placement in self.held
            for seat in placement
            if seat.node in open_nodes
            for _ in seat.cards
        ]
        assert free["gpu"] == sum(1000 * len(node.cards) for node in open_nodes.values()) - sum(parts)
        assert free["gpu"] == sum(amount for name, amount in free.items() if name.startswith("gpu:"))

    def check(self, job: Job, count: int, placement: Placement) -> None:
        assert len(placement) == count
        names = [seat.node for seat in placement]
        assert all(self.nodes[name].open for name in names)
        most = {name: seats_on(self.nodes[name], job, self.held, count) for name in self.nodes}
        if job.topology == "host" or (job.topology == "any" and max(most.values()) >= count):
            assert len(set(names)) == 1
        if job.topology == "rack" and len(set(names)) > 1:
            assert len({(self.nodes[name].zone, self.nodes[name].rack) for name in names}) == 1
            assert self.nodes[names[0]].rack
        if job.topology == "spread":
            assert len(set(names)) == min(count, sum(seats > 0 for seats in most.values()))

    def could_hold(self, job: Job, count: int, held: Held) -> bool:
        most = {name: seats_on(node, job, held, count) for name, node in self.nodes.items()}
        if job.topology in ("any", "spread"):
            return sum(most.values()) >= count
        if max(most.values(), default=0) >= count or job.topology == "host":
            return max(most.values(), default=0) >= count
        racks: dict[tuple[str, str], int] = {}
        for name, node in self.nodes.items():
            if node.rack:
                racks[node.zone, node.rack] = racks.get((node.zone, node.rack), 0) + most[name]
        return max(racks.values(), default=0) >= count


TestRooms = Rooms.TestCase
TestRooms.settings = settings(max_examples=120, stateful_step_count=25)


@given(st.lists(hosts, min_size=1, max_size=5), st.lists(st.tuples(asks, st.integers(1, 4)), max_size=12), st.randoms())
@settings(max_examples=80)
def test_the_order_in_which_hosts_were_named_changes_nothing(
    given_hosts: list[dict[str, Any]], wanted: list[tuple[dict[str, Any], int]], chance: Any
) -> None:
    built = [a_node(f"n{number}", **one) for number, one in enumerate(given_hosts)]
    shuffled = built[:]
    chance.shuffle(shuffled)
    first, second = Room(built), Room(shuffled)
    for number, (ask, count) in enumerate(wanted):
        job = a_job(f"j{number}", **ask)
        placement = first.find(job, count)
        assert second.find(job, count) == placement
        if placement is not None:
            first.take(job, placement)
            second.take(job, placement)


@given(st.lists(hosts, min_size=1, max_size=4), asks, st.integers(1, 6))
@settings(max_examples=200)
def test_an_obstacle_is_named_exactly_where_an_idle_cluster_has_no_seats(
    given_hosts: list[dict[str, Any]], ask: dict[str, Any], count: int
) -> None:
    room = Room([a_node(f"n{number}", **one | {"open": True}) for number, one in enumerate(given_hosts)])
    job = a_job(**ask)
    assert (room.could_ever(job, count) == "") == (room.find(job, count) is not None)


@given(st.lists(hosts, min_size=1, max_size=4), st.lists(st.tuples(asks, st.integers(1, 4)), max_size=10))
@settings(max_examples=80)
def test_giving_back_undoes_taking(given_hosts: list[dict[str, Any]], wanted: list[tuple[dict[str, Any], int]]) -> None:
    room = Room([a_node(f"n{number}", **one) for number, one in enumerate(given_hosts)])
    states: list[tuple[dict[str, int], Job, Placement, Placement | None]] = []
    probe = a_job("probe", gpus=1, gpu_milli=300, zones=("here", "there"))
    for number, (ask, count) in enumerate(wanted):
        job = a_job(f"j{number}", **ask)
        placement = room.find(job, count)
        if placement is not None:
            states.append((room.free(), job, placement, room.find(probe, 1)))
            room.take(job, placement)
    for free, job, placement, answer in reversed(states):
        room.give(job, placement)
        assert room.free() == free
        assert room.find(probe, 1) == answer
