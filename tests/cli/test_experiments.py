"""Experiments, runs, artifacts, comments and the feed, from the command line of a running platform."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Running

IN = ("--project", "default")


@pytest.fixture(scope="module")
def run(platform: Running) -> str:
    """A finished run with parameters, metrics and tags."""
    platform("experiment", "create", "card fraud", "--tag", "team=risk", *IN)
    made = platform("run", "create", "card fraud", "--name", "nightly", "--tag", "by=cron", *IN).strip()
    platform("run", "log", made, "--metric", "auc=0.9", "--metric", "loss=nan", "--param", "depth=4", *IN)
    platform("run", "log", made, "--metric", "auc=0.95", "--step", "1", "--tag", "passed=yes", *IN)
    assert "FINISHED" in platform("run", "finish", made, *IN)
    return made


def test_an_experiment_is_made_found_by_name_renamed_tagged_deleted_and_brought_back(platform: Running):
    made = platform.json("experiment", "create", "first", *IN)
    assert platform.json("experiment", "show", "first", *IN)["id"] == made["id"]
    platform("experiment", "rename", "first", "second", *IN)
    platform("experiment", "tag", "second", "team=risk=high", *IN)
    assert platform.json("experiment", "show", str(made["id"]), *IN)["tags"] == [{"key": "team", "value": "risk=high"}]
    platform("experiment", "tag", "second", "team=", *IN)
    assert "team" not in platform("experiment", "show", "second", *IN)
    said = platform("experiment", "delete", "second", *IN)
    assert f"keeps its name; `falaj experiment restore {made['id']}` brings them back." in said
    assert "second" not in platform("experiment", "list", *IN)
    assert "second" in platform("experiment", "list", "--state", "deleted", *IN)
    platform("experiment", "restore", "second", *IN)
    assert platform.json("experiment", "list", "--filter", "name LIKE 'sec%'", *IN)["items"][0]["name"] == "second"


def test_runs_are_listed_with_their_metrics_filtered_and_ordered(platform: Running, run: str):
    other = platform("run", "create", "card fraud", "--name", "weaker", *IN).strip()
    platform("run", "log", other, "--metric", "auc=0.5", "--param", "depth=2", *IN)
    lines = platform("run", "list", "card fraud", "--order", "metrics.auc DESC", "--param", "depth", *IN).splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATUS", "STARTED", "TOOK", "auc", "loss", "depth"]
    assert [line.split()[1] for line in lines[1:]] == ["nightly", "weaker"]
    assert lines[1].split()[-3:] == ["0.95", "nan", "4"]
    found = platform.json("run", "list", "card fraud", "--filter", "metrics.auc > 0.9 AND params.depth = '4'", *IN)
    assert [one["info"]["id"] for one in found["items"]] == [run]
    assert platform.fails("run", "list", "card fraud", "--filter", "metrics.auc >", *IN, status=2)


def test_a_run_tells_what_it_was_given_and_what_it_measured(platform: Running, run: str):
    told = platform("run", "show", run, *IN)
    for words in ("nightly", "FINISHED", "depth", "tag passed", "0.95", "nan"):
        assert words in told
    assert re.search(r"^experiment +card fraud \(\d+\)$", told, re.MULTILINE)
    assert re.search(r"^created by +owner$", told, re.MULTILINE)
    history = platform.json("run", "history", run, "auc", *IN)["items"]
    assert [(point["step"], point["value"]) for point in history] == [(0, 0.9), (1, 0.95)]
    [point] = platform.json("run", "history", run, "loss", *IN)["items"]
    assert point["value"] == "NaN"


def test_a_profile_tells_where_the_time_went_and_what_to_change(platform: Running, run: str):
    made = platform("run", "create", "card fraud", "--name", "profiled", *IN).strip()
    verdict, chosen = "input-bound: 41 % of each step waits for data", "bfloat16\nThis GPU multiplies it faster."
    words = ("--tag", f"falaj.training.verdict={verdict}", "--tag", f"falaj.training.recipe.precision={chosen}")
    platform("run", "log", made, *words, "--metric", "falaj.training/data_share=0.41", *IN)
    told = platform("run", "profile", made, *IN)
    assert told.splitlines()[0] == verdict
    assert re.search(r"^ *data +41 %$", told, re.MULTILINE)
    assert "This GPU multiplies it faster." in told
    found = platform.json("run", "profile", made, *IN)
    assert (found["shares"], found["recipe"]["precision"]["value"]) == ({"data": 0.41}, "bfloat16")
    assert "has no profile" in platform.fails("run", "profile", run, *IN)


def test_a_profile_of_too_few_steps_says_so_and_shows_no_gaps(platform: Running):
    made = platform("run", "create", "card fraud", "--name", "short", *IN).strip()
    few = "Too few steps to judge: 3 were taken, and those that compile and fill caches do not count."
    words = ("--tag", f"falaj.training.next={few}", "--tag", "falaj.training.recipe.precision=float32\nAs it is written.")
    platform("run", "log", made, *words, *IN)
    told = platform("run", "profile", made, *IN).splitlines()
    assert told[:2] == [few, ""]
    assert told[2].split() == ["CHOICE", "VALUE", "WHY"]


def test_a_comparison_shows_what_differs_and_only_that(platform: Running, run: str):
    other = platform("run", "create", "card fraud", "--name", "other", *IN).strip()
    platform("run", "log", other, "--metric", "auc=0.95", "--param", "depth=8", *IN)
    platform("run", "finish", other, *IN)
    compared = platform.json("run", "compare", run, other, *IN)
    assert compared["runs"] == [run, other]
    rows = {(row["kind"], row["key"]): row["values"] for row in compared["rows"]}
    assert rows["param", "depth"] == ["4", "8"]
    assert ("metric", "auc") not in rows
    side_by_side = platform("run", "compare", run, other, "--same", *IN)
    assert "auc" in side_by_side
    assert side_by_side.splitlines()[0].split() == ["nightly", "other"]
    assert "at least two" in platform.fails("run", "compare", run, *IN, status=2)


def test_a_run_is_hidden_and_brought_back(platform: Running):
    made = platform("run", "create", "0", *IN).strip()
    platform("run", "delete", made, *IN)
    assert made not in platform("run", "list", "0", *IN)
    platform("run", "restore", made, *IN)
    assert made in platform("run", "list", "0", *IN)
    assert platform.fails("run", "show", "0" * 32, *IN)


def test_what_is_no_number_or_no_pair_is_told_before_anything_is_sent(platform: Running, run: str):
    assert "nothing to log" in platform.fails("run", "log", run, *IN, status=2)
    assert "is no number" in platform.fails("run", "log", run, "--metric", "auc=high", *IN, status=2)
    assert "key=value" in platform.fails("run", "log", run, "--param", "depth", *IN, status=2)


def test_what_is_not_there_is_told_apart_from_what_is_empty(platform: Running, run: str):
    assert "99" in platform.fails("run", "list", "99", *IN)
    told = platform.fails("run", "history", run, "acu", *IN)
    assert "no metric acu" in told
    assert "auc, loss" in told
    assert "no folder nosuch" in platform.fails("artifact", "list", run, "nosuch", *IN)


def test_ids_typed_wrong_are_told_before_anything_is_sent_and_capitals_do_no_harm(platform: Running, run: str):
    nowhere = {"FALAJ_URL": "http://127.0.0.1:1", "FALAJ_TOKEN": "none"}
    for words in (
        ("run", "show", "12"),
        ("run", "compare", run, "12"),
        ("artifact", "list", "12"),
        ("comment", "add", "run", "12", "a word"),
        ("comment", "delete", "12"),
        ("review", "request", "run", "12", "fatima"),
        ("review", "withdraw", "12"),
        ("lineage", "show", "run", "12"),
    ):
        assert "32 hexadecimal" in platform.fails(*words, *IN, status=2, **nowhere), words
    assert platform.json("run", "show", run.upper(), *IN)["info"]["id"] == run
    platform("comment", "list", "run", run.upper(), *IN)


def test_a_run_ends_only_in_a_way_that_is_an_end(platform: Running, run: str):
    told = platform.fails("run", "finish", run, "--status", "RUNNING", *IN, status=2)
    assert "FINISHED" in told
    assert "SCHEDULED" not in told


def test_a_folder_of_artifacts_comes_back_as_it_was(platform: Running, run: str, tmp_path: Path):
    content = os.urandom(100_000)
    (tmp_path / "plots" / "deep").mkdir(parents=True)
    (tmp_path / "plots" / "deep" / "a b.bin").write_bytes(content)
    (tmp_path / "plots" / "note.txt").write_text("a note")
    stored = platform.json("artifact", "put", run, str(tmp_path / "plots"), *IN)["items"]
    assert [one["name"] for one in stored] == ["plots/deep/a b.bin", "plots/note.txt"]
    assert platform("artifact", "list", run, "plots", *IN).splitlines()[1].startswith("plots/deep/ ")
    platform("artifact", "get", run, "plots", str(tmp_path / "back"), *IN)
    assert (tmp_path / "back" / "deep" / "a b.bin").read_bytes() == content
    assert platform.raw("artifact", "get", run, "plots/note.txt", "-", *IN).stdout == b"a note"
    assert "Deleted 1" in platform("artifact", "delete", run, "plots/note.txt", "--yes", *IN)
    assert "no artifact" in platform.fails("artifact", "get", run, "plots/note.txt", "-", *IN)
    assert "is a folder" in platform.fails("artifact", "get", run, "plots", "-", *IN, status=2)


def test_standard_input_becomes_an_artifact_under_a_name(platform: Running, run: str):
    platform("artifact", "put", run, "-", "--name", "in/put", *IN, input="water")
    assert platform.raw("artifact", "get", run, "in/put", "-", *IN).stdout == b"water"
    assert "--name" in platform.fails("artifact", "put", run, "-", *IN, status=2)


def test_the_only_project_need_not_be_named_and_several_must_be(platform: Running, tmp_path: Path):
    assert "Default" in platform("experiment", "list", *IN)
    invited = platform.json("user", "create", "maryam")
    person = {"FALAJ_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **person)
    assert "in no project" in platform.fails("experiment", "list", status=2, **person)
    for project in ("one", "two"):
        platform("project", "create", project, "--zone", "home")
        platform("project", "member", "add", project, "maryam", "scientist")
        if project == "one":
            assert "Default" in platform("experiment", "list", **person)
    told = platform.fails("experiment", "list", status=2, **person)
    assert "one, two" in told
    assert "--project" in told
    assert "Default" in platform("experiment", "list", FALAJ_PROJECT="two", **person)
    platform("experiment", "create", "only in two", FALAJ_PROJECT="two", **person)
    assert "only in two" not in platform("experiment", "list", "-p", "one", **person)


def test_comments_reviews_and_the_feed_tell_what_people_did(platform: Running, run: str, tmp_path: Path):
    invited = platform.json("user", "create", "fatima")
    person = {"FALAJ_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **person)
    platform("project", "member", "add", "default", "fatima", "scientist")
    made = platform.json("comment", "add", "run", run, "look, @fatima: the loss is no number", *IN)
    assert [one["name"] for one in made["mentions"]] == ["fatima"]
    platform("comment", "add", "experiment", "card fraud", "a good start", *IN, **person)
    platform("comment", "edit", made["id"], "never mind", *IN)
    assert "never mind" in platform("comment", "list", "run", run, *IN)
    assert "a good start" in platform("comment", "list", "experiment", "card fraud", *IN)
    platform("comment", "delete", made["id"], *IN)
    assert "never mind" not in platform("comment", "list", "run", run, *IN)
    asked = platform.json("review", "request", "run", run, "fatima", "--note", "before Monday", *IN)
    assert asked["id"] in platform("review", "list", "--whose", "mine-to-answer", *IN, **person)
    assert "changes" in platform("review", "answer", asked["id"], "changes", "--note", "no holdout", *IN, **person)
    assert "no holdout" in platform("review", "list", "--state", "changes", *IN)
    told = platform("activity", *IN)
    assert "fatima" in told
    assert "owner" in told


def test_the_lineage_of_a_run_is_drawn_and_exported(platform: Running, run: str, tmp_path: Path):
    assert "linked to nothing" in platform("lineage", "show", "run", run, *IN)
    assert "not known here" in platform.fails("lineage", "show", "run", "0" * 32, *IN)
    assert "not known here" in platform.fails("lineage", "show", "dataset", "cards@none", *IN)
    assert "not known here" in platform.fails("lineage", "show", "model", "m-" + "0" * 32, *IN)
    assert "nosuch" in platform.fails("lineage", "show", "model", "nosuch", *IN)
    file = tmp_path / "events.ndjson"
    platform("lineage", "export", str(file), *IN)
    assert all(json.loads(line)["eventType"] for line in file.read_text().splitlines())
