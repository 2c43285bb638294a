from falaj.cli.importing.progress import Bars


def test_a_total_is_what_was_counted_and_grows_only_by_what_came_since():
    with Bars() as bars:
        bars.expected("runs", 2)
        totals = []
        for _ in range(3):
            bars.found("runs")
            bars.brought("runs")
            totals.append(bars.total("runs"))
        bars.brought("metric points", 5)
    assert totals == [2, 2, 3]
    assert bars.total("metric points") == 0, "of what nobody counted there is no bar"
