"""What a form says about an optimisation, made into a request; and whose job a command is."""

import pytest

from falaj.optimisation.attesting import command_of
from falaj.optimisation.operations.optimisations import PLAN_OPTIMISATION
from falaj.web.forms import Mistyped
from falaj.web.optimisation.amounts import chance, lost, times
from falaj.web.optimisation.asking import plan, searched_by

ID = "0" * 31 + "a"


def asked(**fields: str):
    given = {"model": "card-fraud", "version": "3", "on": "train@1"} | fields
    return plan(PLAN_OPTIMISATION, {name: [text] for name, text in given.items()}, {"project": "fraud", "id": ID})


def test_columns_are_told_apart_by_commas_and_per_cent_become_shares() -> None:
    request = asked(slices=" origin, day of week,", max_drop="0.5%", latency_ms="5", held_out="", target="edge")
    assert request.slices == ("origin", "day of week")
    assert (request.limits.max_drop, request.limits.latency_ms) == (0.005, 5.0)
    assert (request.version, request.held_out, request.target) == (3, "", "edge")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"max_drop": "much"}, "max_drop"),
        ({"max_drop": "0"}, "max_drop"),
        ({"latency_ms": "fast"}, "latency_ms"),
        ({"on": ""}, "on"),
        ({"target": "toaster"}, "target"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(fields: dict[str, str], wrong: str) -> None:
    with pytest.raises(Mistyped) as error:
        asked(**fields)
    assert list(error.value.fields) == [wrong]


@pytest.mark.parametrize("command", [("python", "train.py"), (*command_of(ID), "more"), command_of("../x"), command_of("")])
def test_only_the_platforms_own_program_leads_to_an_optimisation(command: tuple[str, ...]) -> None:
    assert searched_by(command_of(ID)) == ID
    assert searched_by(command) == ""


def test_measures_are_written_with_as_many_digits_as_they_have() -> None:
    assert [lost(share) for share in (0.0, 0.00001, 0.0123, -0.001, float("nan"), float("inf"))] == [
        "0.00",
        "< 0.01",
        "1.23",
        "-0.10",
        "not known",
        "∞",
    ]
    assert [chance(share) for share in (0.0, 0.0042, 0.5)] == ["< 0.0001", "0.0042", "0.50"]
    assert times(2.414) == "2.41\N{MULTIPLICATION SIGN}"
