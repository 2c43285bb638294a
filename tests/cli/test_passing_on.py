"""Words for the script that were not put behind `--`: the line is shown as it should be, or nothing is guessed."""

import pytest

from tests.cli.conftest import Falaj


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("train x.py --epochs 3", "falaj train x.py -- --epochs 3"),
        ("train x.py --cpus 2 --epochs 3 --lr=0.1", "falaj train x.py --cpus 2 -- --epochs 3 --lr=0.1"),
        ("train x.py --epochs 3 --no-follow", "falaj train x.py --no-follow -- --epochs 3"),
        ("job submit --no-source python x.py --epochs 3", "falaj job submit --no-source -- python x.py --epochs 3"),
        ("tune run --set a=1..2 x.py --depth 3", "falaj tune run --set a=1..2 -- x.py --depth 3"),
    ],
)
def test_who_forgot_the_dashes_is_shown_where_they_go(falaj: Falaj, given: str, meant: str):
    assert falaj.fails(*given.split(), status=2).endswith(f"; for the script or program itself: {meant}\n")


@pytest.mark.parametrize("given", ["train --epochs 3 x.py", "train x.py --epochs 3 -- --lr 1", "job list --epochs 3"])
def test_nothing_is_guessed_where_that_is_not_what_is_wrong(falaj: Falaj, given: str):
    assert falaj.fails(*given.split(), status=2).endswith(" --help\n")
