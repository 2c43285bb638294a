"""What a drawing of a pipeline says: only links that say something, and of many items one state."""

from falaj.base.clock import SECOND, Moment
from falaj.lifecycle.operations.pipelines import StepShown
from falaj.lifecycle.operations.words import Definition, Step, StepState
from falaj.web.pipelines.figures import in_four_digits
from falaj.web.pipelines.graph import graph, links_of, summed


def step(name: str, *after: str) -> Step:
    return Step(name=name, kind="value", arguments={"value": 1}, after=after)


def shown(name: str, state: StepState, item: int = -1, seconds: int | None = None, cached: str = "") -> StepShown:
    return StepShown(
        name=name,
        kind="value",
        item=item,
        state=state,
        attempt=1,
        arguments={},
        result=None,
        words="",
        job="",
        cached=cached,
        started=None if seconds is None else Moment(0),
        ended=None if seconds is None else Moment(seconds * SECOND),
    )


def test_what_follows_from_other_links_is_not_drawn():
    definition = Definition(steps=(step("a"), step("b", "a"), step("c", "a", "b"), step("d", "a")))
    assert sorted(links_of(definition)) == [("a", "b"), ("a", "d"), ("b", "c")]


def test_a_list_is_as_its_whole_is_and_counts_its_items():
    found = summed([shown("each", "running"), shown("each", "done", 0, 1), shown("each", "failed", 1, 2)])["each"]
    assert (found.state, found.items, found.done, found.seconds) == ("running", 2, 1, None)


def test_a_step_tells_how_long_it_took_or_that_it_was_taken():
    definition = Definition(steps=(step("a"), step("b", "a")))
    drawn = str(
        graph(definition, "nightly", summed([shown("a", "done", seconds=3), shown("b", "done", seconds=0, cached="f" * 32)]))
    )
    assert "done · 3.0 s" in drawn
    assert "done · taken" in drawn
    assert 'aria-label="The 2 steps of nightly, in the order they are done in."' in drawn


def test_figures_are_read_in_four_digits_and_large_ones_keep_what_is_before_the_point():
    given = {"figures": {"accuracy": 0.8990228013029316, "rows": 123456, "sum": 123456.789}, "gain": [None, True, "0.12345"]}
    read = {"figures": {"accuracy": 0.899, "rows": 123456, "sum": 123456.8}, "gain": [None, True, "0.12345"]}
    assert in_four_digits(given) == read
