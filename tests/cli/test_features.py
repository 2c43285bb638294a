"""Features from the command line of a running platform: defined in a file, joined with labels, kept and read for serving."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from falaj.base.errors import Invalid
from falaj.cli.feature_files import views_in
from tests.cli.conftest import Running
from tests.servers.processes import NO_TLS

CLICKS = """user,happened,seen,amount
1,2024-11-01T09:00:00Z,2024-11-01T09:00:00Z,1.5
1,2024-11-02T09:00:00Z,2024-11-10T09:00:00Z,99.0
2,2024-11-03T09:00:00Z,2024-11-03T09:00:00Z,2.5
"""
LABELS = "user,asked\n2,2024-11-04T09:00:00Z\n1,2024-11-05T09:00:00Z\n1,2024-11-11T09:00:00Z\n3,2024-11-05T09:00:00Z\n"
DOCUMENTED = re.findall(r"```(toml|yaml)\n(.*?)```", Path("docs/features.md").read_text(), re.DOTALL)


def test_the_documented_file_is_one_definition_in_either_form(tmp_path: Path) -> None:
    read = []
    for form, text in DOCUMENTED:
        (tmp_path / f"features.{form}").write_text(text)
        read.append(views_in(str(tmp_path / f"features.{form}"), "fraud"))
    assert read[0] == read[1]
    assert [feature.period for feature in read[0][0].features] == [None, 604_800_000_000, 604_800_000_000]


def test_a_view_is_applied_joined_materialised_and_read(platform: Running, tmp_path: Path) -> None:
    for name, content in (("clicks.csv", CLICKS), ("labels.csv", LABELS), ("features.toml", DOCUMENTED[0][1])):
        (tmp_path / name).write_text(content)
    platform("dataset", "import", "clicks", str(tmp_path / "clicks.csv"))
    platform("dataset", "import", "labels", str(tmp_path / "labels.csv"))
    assert "clicks" in platform("feature", "apply", str(tmp_path / "features.toml"))
    assert [one["version"] for one in platform.json("feature", "list")["items"]] == [1]
    assert "spent_7d" in platform("feature", "show", "clicks")
    told = platform("feature", "training-set", "labels", "training", "--time", "asked", "--feature", "clicks")
    assert "training@1 has 4 rows and 5 columns: labels@1 with clicks@1." in told
    rows = platform.json("dataset", "query", "SELECT * EXCLUDE (asked) FROM training")["rows"]
    assert rows == [[2, 2.5, 1, 2.5], [1, 1.5, 1, 1.5], [1, 99.0, 0, None], [3, None, 0, None]]
    (tmp_path / "features.toml").write_text(DOCUMENTED[0][1].replace("known =", "# known ="))
    platform("feature", "apply", str(tmp_path / "features.toml"))
    joined = ("feature", "training-set", "labels", "nothing", "--time", "asked")
    assert "no label knows anything of clicks@2" in platform.both(*joined, "--feature", "clicks", status=0)[1]
    assert "Warning" not in platform.both(*joined, "--feature", "clicks@1", status=0)[1]
    platform("feature", "delete", "clicks@2", "--yes")
    done = platform.json("feature", "materialise", "clicks", "--at", "2024-11-05T09:00:00Z")
    assert (done["entities"], done["source"]) == (2, "clicks@1")
    found = platform.json("feature", "get", "clicks", "--entity", "user=1", "--entity", "user=3")
    assert found["views"][0]["moment"].startswith("2024-11-05T09:00:00")
    assert found["rows"][1] == [None, 0, None]
    assert "clicks@1 is as of 2024-11-05" in platform("feature", "get", "clicks:clicks_7d", "--entity", "user=2")
    assert "is int64" in platform.fails("feature", "get", "clicks", "--entity", "user=you", status=2)
    assert "Nothing was kept of what was served" in platform("feature", "audit", "clicks")
    assert "'soon' is no time" in platform.fails("feature", "materialise", "clicks", "--at", "soon", status=2)


def test_a_notebook_does_as_documented_and_what_it_was_served_is_audited(platform: Running, tmp_path: Path) -> None:
    for name, content in (("clicks.csv", CLICKS), ("labels.csv", LABELS)):
        (tmp_path / name).write_text(content)
        platform("dataset", "import", f"my-{name.removesuffix('.csv')}", str(tmp_path / name))
    (code,) = re.findall(r"```python\n(.*?)```", Path("docs/features.md").read_text(), re.DOTALL)
    for name, own in (('"fraud"', '"default"'), ('"name": "clicks"', '"name": "my-clicks"'), ('"labels"', '"my-labels"')):
        assert name in code
        code = code.replace(name, own)
    code = code.replace('"dataset": "clicks"', '"dataset": "my-clicks"').replace('"clicks"', '"my-clicks"')
    code = code.replace('"clicks:', '"my-clicks:').replace('into="training"', 'into="my-training"')
    environment = platform.environment | {"FALAJ_URL": platform.url, "FALAJ_TOKEN": token_of(platform)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "{'user': 1, 'last_amount': 99.0, 'clicks_7d': 0}" in done.stdout
    assert done.stdout.splitlines()[-1] == "{}"
    assert "differences: none" in platform("feature", "audit", "my-clicks")
    shown = platform("feature", "show", "my-clicks")
    for words in ("my-clicks@1", "100% of what is served", "nothing"):
        assert words in shown, words
    (tmp_path / "more.csv").write_text("user,happened,seen,amount\n1,2024-11-03T09:00:00Z,2024-11-03T09:00:00Z,7.0\n")
    platform("dataset", "import", "my-clicks", str(tmp_path / "more.csv"))
    platform("feature", "get", "my-clicks:last_amount", "--entity", "user=1")
    told, _ = platform.both("feature", "audit", "my-clicks", "--since", "1h", status=1)
    assert "stale" in told
    found = platform.json("feature", "audit", "my-clicks", status=1)
    assert [one["feature"] for one in found["differences"] if one["cause"] == "stale"] == ["last_amount"]
    assert "1 versions since" in platform("feature", "show", "my-clicks")
    assert "what was read: changed" in platform("feature", "materialise", "my-clicks")
    for entities, status in ((1000, 200), (1001, 400)):
        asked = {"features": ["my-clicks"], "entities": [{"user": user} for user in range(entities)]}
        headers = {"authorization": f"Bearer {token_of(platform)}"}
        answer = httpx.post(f"{platform.url}/v1/projects/default/feature-values", json=asked, headers=headers, verify=NO_TLS)
        assert answer.status_code == status, answer.text[:300]
        assert status != 200 or [row[0] for row in answer.json()["rows"][:4]] == [None, 7.0, 2.5, None]
    assert "--since: " in platform.fails("feature", "audit", "my-clicks", "--since", "yesterday", status=2)
    assert "Say --yes" in platform.fails("feature", "delete", "my-clicks", status=2)
    assert platform("feature", "delete", "my-clicks", "--yes") == "Deleted my-clicks@1.\n"
    assert "no feature view 'my-clicks'" in platform.fails("feature", "show", "my-clicks")


def token_of(platform: Running) -> str:
    token: str = json.loads((platform.home / "credentials.json").read_text())["token"]
    return token


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "defines no views"),
        ("[[view]]\nname = 'a'\n", "view 'a' lacks 'dataset'"),
        ("[[views]]\n", "'views', which means nothing here"),
        (DOCUMENTED[0][1].replace("known =", "knwon ="), "'knwon', which means nothing here"),
        (DOCUMENTED[0][1].replace("period =", "window ="), "feature 'clicks_7d' of view 'clicks' has 'window'"),
        (DOCUMENTED[0][1].replace('"30d"', '"long"'), "'long' is no length of time"),
        (DOCUMENTED[0][1].replace('["user"]', "7"), "The keys of view 'clicks' are columns"),
        ("view", "cannot be read"),
    ],
)
def test_what_is_misspelled_is_told_by_its_name(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "features.toml").write_text(text)
    with pytest.raises(Invalid, match=re.escape(says)):
        views_in(str(tmp_path / "features.toml"), "fraud")
