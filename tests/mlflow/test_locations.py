"""Artifact locations: whose files, and which name; never a way out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.api.mlflow.heads import segments_of
from falaj.api.mlflow.locations import Held, Snapshot, location_in, location_of
from falaj.base.errors import Invalid, NotFound

RUN = "0123456789abcdef" * 2
MODEL = f"m-{RUN}"


def test_three_kinds_of_places_are_told_apart() -> None:
    assert location_in(f"3/{RUN}/artifacts/model/MLmodel") == Held(holder=RUN, name="model/MLmodel")
    assert location_in(f"3/{RUN}/artifacts") == Held(holder=RUN, name="")
    assert location_in(f"3/models/{MODEL}/artifacts/MLmodel") == Held(holder=MODEL, name="MLmodel")
    assert location_in(f"models/{RUN}/data/x.bin") == Snapshot(version=RUN, name="data/x.bin")
    assert location_in(f"/3//{RUN}/artifacts/a/") == Held(holder=RUN, name="a")


@pytest.mark.parametrize("path", ["", "3", f"3/{RUN}", f"x/{RUN}/artifacts/a", "models", "models/fraud/1", "etc/passwd"])
def test_elsewhere_is_nothing(path: str) -> None:
    with pytest.raises(NotFound):
        location_in(path)


@pytest.mark.parametrize(
    "name",
    [
        b"..",
        b"../x",
        b"%2e%2e/x",
        b"%2E%2E%2Fx",
        b"..%2fx",
        b"%252e%252e/x",
        b"%25252e%25252e",
        b"a/../../x",
        b"a/./b",
        b"a%5cb",
        b"..\\x",
        b"a%2fb",
        b"%2fetc/passwd",
        b"a%00b",
        b"a%0ab",
        b"%ff",
        b"x" * 1001,
    ],
)
def test_names_that_try_to_leave_are_refused(name: bytes) -> None:
    with pytest.raises(Invalid):
        location_of(segments_of(f"3/{RUN}/artifacts/".encode() + name))


@given(st.binary(max_size=40))
def test_whatever_comes_a_name_stays_below_its_run(name: bytes) -> None:
    try:
        place = location_of(segments_of(f"3/{RUN}/artifacts/".encode() + name))
    except (Invalid, NotFound):
        return
    assert isinstance(place, Held)
    assert place.holder == RUN
    assert not {".", ".."} & set(place.name.split("/"))
    assert "\\" not in place.name
    assert not place.name.startswith("/")
