"""From windows and figures to what is drawn of them."""

from xml.etree import ElementTree

from falaj.base.clock import DAY, SECOND, Moment
from falaj.monitoring.operations.labels import Bucket, Figure
from falaj.monitoring.operations.monitors import Window
from falaj.monitoring.operations.words import Told
from falaj.web.monitoring.monitor import MOST_CELLS, breaks, furthest, together, window_words
from falaj.web.monitoring.quality import ESTIMATED, chart, figure_names

NOON = 1_800_000_000 * SECOND
MINUTE = 60 * SECOND


def told(column: str, effect: float, drifting: bool = False) -> Told:
    return Told(column=column, effect=effect, evidence=0.0, missing=0.0, outside=0.0, drifting=drifting)


def window(place: int, *columns: Told) -> Window:
    at = NOON + place * MINUTE
    return Window(at=Moment(at), until=Moment(at + MINUTE), rows=100, missed=1, columns=columns)


def test_what_drifts_now_stands_above_what_drifted_once_and_that_above_what_is_far() -> None:
    newest = window(2, told("now", 0.2, drifting=True), told("once", 0.1), told("far", 0.9), told("near", 0.0))
    before = window(1, told("now", 0.0), told("once", 0.5, drifting=True), told("far", 0.9), told("near", 0.01))
    assert furthest([newest, before]) == ["now", "once", "far", "near"]


def test_many_windows_are_put_together_and_no_alarm_gets_lost() -> None:
    windows = [window(place, told("a", 0.1), told("b", 0.0)) for place in reversed(range(150))]
    windows[100] = window(49, told("a", 0.05, drifting=True))
    cells = together(windows)
    assert len(cells) <= MOST_CELLS
    assert sum(whole.rows for whole, _ in cells) == 150 * 100
    assert sum(whole.missed for whole, _ in cells) == 150
    assert [whole.at for whole, _ in cells] == sorted(whole.at for whole, _ in cells)
    assert sum(one.drifting for _, columns in cells for one in columns) == 1


def test_time_without_windows_is_a_gap() -> None:
    assert breaks([window(0), window(1), window(5), window(6)]) == [2]
    assert breaks([]) == []
    assert together([]) == []


def test_windows_are_named_by_the_largest_unit_that_fits() -> None:
    assert [window_words(seconds) for seconds in (60, 300, 90, 3600, 86_400)] == [
        "a minute",
        "5 minutes",
        "90 seconds",
        "an hour",
        "a day",
    ]


def test_estimates_are_drawn_with_the_accuracy_that_they_estimate() -> None:
    def bucket(day: int, name: str) -> Bucket:
        figure = Figure(name=name, at=0.9, low=0.8, high=0.95, rows=100)
        return Bucket(revision=1, at=Moment(NOON + day * DAY), rows=100, kind="classes", figures=(figure,))

    buckets = [bucket(2, ESTIMATED), bucket(1, "accuracy"), bucket(0, "accuracy")]
    assert figure_names(buckets) == ["accuracy"]
    assert figure_names(buckets[:1]) == [ESTIMATED], "by itself where nothing else is known"
    picture = ElementTree.fromstring(chart(buckets, "accuracy"))
    assert len(list(picture.iter("circle"))) == 3
    assert [one.attrib["class"] for one in picture.iter("g") if "faint" in one.attrib.get("class", "")] == [
        "bands-course series-1 faint"
    ]
