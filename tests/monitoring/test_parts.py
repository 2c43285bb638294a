"""What one loop does in parts: none of them stops another, and what fails is not tried without a pause."""

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Unavailable
from falaj.monitoring.parts import AGAIN, Parts

START = Moment.parse("2026-11-15T09:30:00Z")


def test_a_part_that_fails_stops_no_other_and_waits_before_it_is_tried_again() -> None:
    done: list[str] = []

    def part(name: str, outcome: bool | Exception) -> bool:
        done.append(name)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    parts = Parts(
        {
            "odd": lambda _: part("odd", RuntimeError("as nobody thought of it")),
            "down": lambda _: part("down", Unavailable("the key ring does not answer")),
            "busy": lambda _: part("busy", True),
            "idle": lambda _: part("idle", False),
        }
    )
    assert parts.step(START)
    assert done == ["odd", "down", "busy", "idle"]
    assert parts.step(Moment(START + SECOND))
    assert done[4:] == ["busy", "idle"]
    parts.step(Moment(START + AGAIN))
    assert done[6:] == ["odd", "down", "busy", "idle"]


def test_nothing_is_asked_for_again_where_parts_only_fail() -> None:
    def failing(_: Moment) -> bool:
        raise Unavailable("the key ring does not answer")

    assert not Parts({"down": failing}).step(START)
