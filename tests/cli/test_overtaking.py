"""While an A/B test goes on: who changes the split is told that it ends by that, and labels may be asked to be known."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Running
from tests.monitoring.abtests.contested import Contested
from tests.serving.control.platform import Platform


@pytest.fixture(scope="module")
def testing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A platform on which a test goes on since before it was started."""
    folder: Path = tmp_path_factory.mktemp("testing")
    before = Platform(folder)
    Contested(before, 2).begin(2)
    before.close()
    running = Running(folder / "home", folder / "config", FALAJ_SERVING_ENABLED="false")
    yield running
    running.stop()


def test_labels_of_unknown_predictions_end_with_a_status_where_that_is_asked_for(testing: Running) -> None:
    labels = '{"id": "nobody", "truth": 1}\n'
    assert "1 unknown" in testing("labels", "add", "scores", input=labels)
    assert "1 unknown" in testing("labels", "add", "scores", "--strict", input=labels, status=1)


def test_a_change_that_overtakes_a_test_says_so_once_and_one_that_fails_does_not(testing: Running) -> None:
    assert "overtaken" not in testing.fails("endpoint", "split", "scores", "9=100", "--wait", "0", status=2)
    _, said = testing.both("endpoint", "split", "scores", "1=90", "2=10", "--wait", "0")
    assert said == "The A/B test trial ended by this: overtaken.\n"
    for _ in range(100):
        if testing.json("abtest", "show", "trial")["state"] == "overtaken":
            break
    assert testing.both("endpoint", "promote", "scores", "--revision", "1", "--wait", "0")[1] == ""
