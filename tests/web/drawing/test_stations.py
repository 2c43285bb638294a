"""Stations on a line, and shares over time: what they show is also said in words, and nothing in them is markup of others."""

from falaj.web.drawing.stations import Station, stations
from falaj.web.drawing.tenures import Lane, Mark, Stretch, tenures


def test_a_station_that_was_not_reached_is_hollow_and_the_way_to_it_dashed() -> None:
    drawn = stations(
        [Station(title="Data", state="done", lines=("flights@4",)), Station(title="Gates", state="none", since="2 h")],
        label="From data to gates.",
    )
    assert 'role="img" aria-label="From data to gates."' in drawn
    assert 'class="stations-way none"' in drawn
    assert drawn.count("stations-sign") == 1
    assert ">2 h<" in drawn
    assert "<title>Data. flights@4</title>" in drawn


def test_what_is_too_long_is_cut_and_told_whole_where_one_points() -> None:
    name = "a-very-long-name-" * 10
    drawn = stations([Station(title=str(place), state="done", lines=(name,)) for place in range(7)], label="long")
    assert f"<title>0. {name}</title>" in drawn
    assert drawn.count(name) == 7


def test_markup_in_a_station_or_a_lane_is_text() -> None:
    nasty = "<script>alert(1)</script>"
    assert "<script" not in stations([Station(title=nasty, state="troubled", lines=(nasty,), since=nasty)], label=nasty)
    lane = Lane(
        name=nasty,
        note=nasty,
        stretches=(Stretch(start=0, end=1, share=1, words=nasty),),
        marks=(Mark(at=0.5, kind="critical", words=nasty),),
    )
    assert "<script" not in tenures([lane], ends=(nasty, nasty), label=nasty)


def test_a_lane_is_as_high_as_the_share_and_copies_are_faint() -> None:
    lane = Lane(
        name="scores",
        note="half",
        stretches=(
            Stretch(start=0, end=10, share=0.5, words="half"),
            Stretch(start=10, end=10, share=1, words="a moment", faint=True),
        ),
    )
    drawn = tenures([lane], ends=("first", "last"), label="Shares.")
    assert 'height="22"' in drawn
    assert 'class="faint"' in drawn
    assert 'width="2"' in drawn  # what lasted a moment is still to be seen


def test_nothing_is_drawn_of_nothing() -> None:
    assert stations([], label="") == ""
    assert tenures([Lane(name="scores", note="", stretches=())], ends=("", ""), label="") == ""
