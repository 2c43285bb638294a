"""Deriving from the command line of a running platform: SQL by the platform, functions by real jobs behind their walls."""

from pathlib import Path

import pytest

from falaj.base.errors import Invalid
from falaj.client.functions import argument_of, function_in
from tests.cli.conftest import Running

CLICKS = """user,happened,seen,amount
1,2024-11-01T09:00:00Z,2024-11-01T09:00:00Z,2
2,2024-11-02T09:00:00Z,2024-11-09T09:00:00Z,5
"""
USERS = "user,country\n1,AE\n2,OM\n"
FUNCTIONS = """
import pyarrow.compute as pc


def doubled(clicks, more_users):
    joined = clicks.join(more_users, "user").sort_by("user")
    return joined.append_column("twice", pc.multiply(joined["amount"], 2))


def spending(clicks, more_users):
    return clicks.join(more_users, "user").select(["country", "happened", "seen", "amount"])


def raises(clicks):
    raise ValueError(f"no rate for {clicks.num_rows} rows")


def nonsense(clicks):
    return 7


def alone():
    return []
"""
SMALL = ("--cpus", "0.5", "--memory", "512MiB")


@pytest.fixture(scope="module")
def place(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    for name, content in (("clicks.csv", CLICKS), ("users.csv", USERS), ("functions.py", FUNCTIONS)):
        (folder / name).write_text(content)
    platform("dataset", "import", "clicks", str(folder / "clicks.csv"))
    platform("dataset", "import", "more-users", str(folder / "users.csv"))
    return folder


@pytest.mark.usefixtures("place")
def test_sql_is_derived_once(platform: Running) -> None:
    sql = 'SELECT country, sum(amount) AS spent FROM clicks JOIN "more-users" USING (user) GROUP BY country'
    told = platform("dataset", "derive", "spent", "--sql", sql)
    assert told == "spent@1 has 2 rows, derived from clicks@1, more-users@1.\n"
    assert "it was made before" in platform("dataset", "derive", "spent", "--sql", sql)
    assert platform.json("dataset", "derive", "spent", "--sql", sql)["cached"] is True
    assert platform.json("dataset", "derive", "spent", "--sql", sql, "--anew", "--from", "clicks@1")["version"]["version"] == 2
    assert "Say how" in platform.fails("dataset", "derive", "spent", status=2)
    assert "--from" in platform.fails("dataset", "derive", "spent", "--python", "functions.py", status=2)


def test_a_function_runs_in_a_job_once(platform: Running, place: Path) -> None:
    reference = f"{place / 'functions.py'}:doubled"
    derive = ("dataset", "derive", "twice", "--python", reference, "--from", "clicks", "--from", "more-users@1", *SMALL)
    told, said = platform.both(*derive)
    assert "twice@1 has 2 rows, derived from clicks@1, more-users@1." in told, (told, said)
    rows = platform.json("dataset", "query", "SELECT user, country, twice FROM twice ORDER BY user")["rows"]
    assert rows == [[1, "AE", 4], [2, "OM", 10]]
    jobs = len(platform.json("job", "list")["items"])
    again = platform.json(*derive)
    assert (again["cached"], again["version"]["version"]) == (True, 1)
    assert again["version"]["derivation"]["kind"] == "python"
    assert len(platform.json("job", "list")["items"]) == jobs


VIEWS = """
view:
  - name: by-country
    python: functions.py:spending
    from: [clicks, more-users]
    keys: [country]
    event: happened
    known: seen
    features:
      last_amount: {column: amount}
  - name: by-user
    sql: |
      SELECT user, happened, greatest(seen, happened) AS known, amount * 3 AS thrice
      FROM clicks
    keys: [user]
    event: happened
    known: known
    features:
      last_thrice: {column: thrice}
"""
LABELS = "user,country,asked\n1,AE,2024-11-05T09:00:00Z\n2,OM,2024-11-05T09:00:00Z\n2,OM,2024-11-11T09:00:00Z\n"


@pytest.mark.heavy
def test_views_over_sql_and_over_a_function_follow_what_they_are_made_of(platform: Running, place: Path) -> None:
    (place / "views.yaml").write_text(VIEWS)
    (place / "labels.csv").write_text(LABELS)
    platform("dataset", "import", "labels", str(place / "labels.csv"))
    platform("feature", "apply", str(place / "views.yaml"), *SMALL)
    assert "the function spending" in platform("feature", "show", "by-country")
    make = (
        "feature",
        "training-set",
        "labels",
        "training",
        "--time",
        "asked",
        "--feature",
        "by-country",
        "--feature",
        "by-user",
    )
    told = platform.json(*make, *SMALL)
    assert (told["sources"], told["cached"]) == (["by-country-rows@1", "by-user-rows@1"], False)
    read = "SELECT user, last_amount, last_thrice FROM training ORDER BY asked, user"
    assert platform.json("dataset", "query", read)["rows"] == [[1, 2, 6], [2, None, None], [2, 5, 15]]
    assert "it was made before" in platform(*make, *SMALL)
    (place / "more.csv").write_text("user,happened,seen,amount\n1,2024-11-04T09:00:00Z,2024-11-04T09:00:00Z,9\n")
    platform("dataset", "import", "clicks", str(place / "more.csv"))
    assert platform.json(*make, *SMALL)["sources"] == ["by-country-rows@2", "by-user-rows@2"]
    assert platform.json("dataset", "query", read)["rows"] == [[1, 9, 27], [2, None, None], [2, 5, 15]]
    assert platform.json("feature", "materialise", "by-country", *SMALL)["source"] == "by-country-rows@2"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", "The function 'raises' raised ValueError: no rate for 2 rows"),
        pytest.param("nonsense", "What 'nonsense' returned is no table: int is nothing", marks=pytest.mark.heavy),
        pytest.param("alone", "'alone' is called with clicks=table, and does not take that", marks=pytest.mark.heavy),
    ],
)
def test_a_function_that_does_wrong_is_told_plainly_and_makes_nothing(
    platform: Running, place: Path, name: str, says: str
) -> None:
    reference = f"{place / 'functions.py'}:{name}"
    told, _ = platform.both("dataset", "derive", "bad", "--python", reference, "--from", "clicks@1", *SMALL, status=1)
    assert says in told
    assert "no dataset 'bad'" in platform.fails("dataset", "history", "bad")


@pytest.mark.parametrize(
    ("text", "reference", "says"),
    [
        ("def a(): ...\ndef b(): ...\n", "f.py", "has 2 .a, b.: name the function"),
        ("x = 1\n", "f.py", "has none"),
        ("def a(: ...\n", "f.py", r"no Python that can be read .line 1."),
        ("def a(): ...\n", "f.py:b", "no function 'b'. There are: a"),
        ("def a(): ...\n", "g.py", "cannot be read"),
    ],
)
def test_a_file_without_the_function_is_told_before_anything_is_sent(
    tmp_path: Path, text: str, reference: str, says: str
) -> None:
    (tmp_path / "f.py").write_text(text)
    with pytest.raises(Invalid, match=says):
        function_in(reference, folder=tmp_path)


def test_the_one_function_of_a_file_needs_no_name_and_tables_have_names_of_python(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def _helper(): ...\ndef rows(a): ...\n")
    assert function_in("f.py", folder=tmp_path).name == "rows"
    assert [argument_of(name) for name in ("clicks", "more-users", "2024.q1", "class")] == [
        *("clicks", "more_users", "_2024_q1", "class_")
    ]
