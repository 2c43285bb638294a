"""Registered models from the command line: registered, promoted with a second person, rolled back, looked up as of a moment."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.cli.commands.promotions import line_of
from falaj.registry.operations.promotions import Move, Person
from falaj.registry.promotions import previous
from tests.cli.conftest import Running

IN = ("--project", "default")
RULE = """
forbid (principal, action == Action::"model.promote", resource)
when { context has promotion && context.promotion.alias == "champion" && context.promotion.approvals < 1 };
"""
MLMODEL = "flavors:\n  python_function:\n    loader_module: mlflow.sklearn\n  sklearn:\n    pickled_model: model.pkl\n"


@pytest.fixture(scope="module")
def run(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with the files of a model."""
    made = platform("run", "create", "0", "--name", "trained", *IN).strip()
    folder = tmp_path_factory.mktemp("model") / "model"
    folder.mkdir()
    (folder / "MLmodel").write_text(MLMODEL)
    (folder / "model.pkl").write_bytes(b"not loaded by anybody")
    platform("artifact", "put", made, str(folder), *IN)
    platform("run", "log", made, "--param", "depth=4", "--metric", "auc=0.9", *IN)
    return made


@pytest.fixture(scope="module")
def model(platform: Running, run: str) -> str:
    """A model with three versions."""
    platform("model", "create", "card-fraud", "--description", "Scores card payments.", "--tag", "team=risk", *IN)
    for number in (1, 2, 3):
        assert platform.json("model", "register", "card-fraud", run, "model", *IN)["version"] == number
    return "card-fraud"


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def test_models_and_versions_are_listed_and_shown(platform: Running, model: str, run: str):
    assert "card-fraud" in platform("model", "list", "--filter", "name LIKE 'card%'", *IN)
    told = platform("model", "show", model, *IN)
    assert "Scores card payments." in told
    assert "tag team" in told
    assert re.search(r"^created by +owner$", told, re.MULTILINE)
    assert re.search(r"^created by +owner$", platform("model", "show", model, "2", *IN), re.MULTILINE)
    version = platform.json("model", "show", model, "2", *IN)
    assert (version["run"], version["files"], version["signed"], version["flavors"]) == (
        run,
        2,
        True,
        ["python_function", "sklearn"],
    )
    lines = platform("model", "versions", model, *IN).splitlines()
    assert [line.split()[0] for line in lines] == ["VERSION", "3", "2", "1"]
    assert "neither a number nor an alias" in platform.fails("model", "show", model, "nobody", *IN)


def test_a_version_comes_back_file_by_file_with_its_bill_of_materials_and_signature(
    platform: Running, model: str, tmp_path: Path
):
    platform("model", "download", model, "1", str(tmp_path / "back"), "--signature", *IN)
    assert (tmp_path / "back" / "MLmodel").read_text() == MLMODEL
    assert (tmp_path / "back" / "model.pkl").read_bytes() == b"not loaded by anybody"
    assert json.loads((tmp_path / "back" / "model.sig").read_text())
    assert json.loads(platform("model", "sbom", model, "1", *IN))["bomFormat"] == "CycloneDX"
    assert "MLmodel" in platform("model", "files", model, "1", *IN)


def test_a_version_verifies_and_says_that_it_is_converted_or_precisely_why_it_cannot_be_served(platform: Running, model: str):
    assert "is what was signed: 2 files" in platform("model", "verify", model, "1", *IN)
    told = platform("model", "servable", model, "1", *IN)
    assert "converted by `falaj deploy`" in told
    assert "pickle" in told.lower()
    assert "converted" in platform("model", "versions", model, *IN).splitlines()[1]
    other = platform("run", "create", "0", *IN).strip()
    platform("artifact", "put", other, "-", "--name", "model/weights", *IN, input="0123456789")
    platform("model", "create", "of-no-kind", *IN)
    platform("model", "register", "of-no-kind", other, "model", *IN)
    assert "cannot be served" in platform("model", "servable", "of-no-kind", "1", *IN, status=1)


def test_a_changed_file_does_not_verify(platform: Running, run: str):
    """The sealed bytes of a version of its own are damaged on the disk."""
    other = platform("run", "create", "0", *IN).strip()
    before = set((platform.home / "blobs").rglob("*"))
    platform("artifact", "put", other, "-", "--name", "model/weights", *IN, input="0123456789" * 100)
    [sealed] = [file for file in set((platform.home / "blobs").rglob("*")) - before if file.is_file()]
    platform("model", "create", "damaged", *IN)
    platform("model", "register", "damaged", other, "model", *IN)
    content = bytearray(sealed.read_bytes())
    content[len(content) // 2] ^= 1
    sealed.write_bytes(content)
    assert "does not verify" in platform("model", "verify", "damaged", "1", *IN, status=1)


def test_two_versions_are_compared(platform: Running, model: str, run: str, tmp_path: Path):
    other = platform("run", "create", "0", *IN).strip()
    (tmp_path / "MLmodel").write_text(MLMODEL + "run_id: other\n")
    platform("artifact", "put", other, str(tmp_path / "MLmodel"), "--name", "model/MLmodel", *IN)
    platform("run", "log", other, "--param", "depth=8", "--metric", "auc=0.8123456789", *IN)
    platform("model", "create", "compared", *IN)
    for holder in (run, other):
        platform("model", "register", "compared", holder, "model", *IN)
    told = platform("model", "diff", "compared", "1", "2", *IN)
    for words in ("model.pkl", "depth", "auc", "0.812346"):
        assert words in told
    assert "0.8123456789" not in told, "rounded as in a comparison of runs"
    assert "Nothing differs" in platform("model", "diff", model, "1", "2", *IN)


def test_a_champion_is_approved_promoted_rolled_back_and_known_as_of_any_moment(
    platform: Running, model: str, run: str, tmp_path: Path
):
    (tmp_path / "four-eyes.cedar").write_text(RULE)
    platform("policy", "put", "four-eyes", str(tmp_path / "four-eyes.cedar"), *IN)
    invited = platform.json("user", "create", "maryam")
    second = {"FALAJ_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **second)
    platform("project", "member", "add", "default", "maryam", "validator")
    moments = [now()]
    for version in ("1", "2"):
        waiting = platform.json("model", "promote", model, version, "--reason", f"number {version}", *IN, status=3)
        assert (waiting["state"], waiting["needed"]) == ("waiting", 1)
        told = platform("model", "promote", model, version, *IN, status=3)
        assert f"falaj model approve {waiting['approval']} --project default" in told
        assert platform.fails("model", "approve", waiting["approval"], *IN), "nobody approves a wish of their own"
        assert waiting["approval"] in platform("model", "approvals", *IN, **second)
        assert "ready" in platform("model", "approve", waiting["approval"], "--note", "seen", *IN, **second)
        assert f"points at version {version} now" in platform("model", "promote", model, version, *IN)
        assert "already" in platform("model", "promote", model, version, *IN)
        time.sleep(0.01)
        moments.append(now())
    asked = platform.fails("model", "rollback", model, *IN, status=2)
    assert f"Point champion of {model} back from version 2 to version 1?" in asked
    assert "--yes" in asked
    assert "points at version 1 now" in platform("model", "rollback", model, "--yes", *IN)
    as_of = [platform.json("model", "as-of", model, "--alias", "champion", "--at", at, *IN) for at in [*moments, now()]]
    assert [state["version"] for state in as_of] == [0, 1, 2, 1]
    assert [one["name"] for one in as_of[2]["move"]["approvers"]] == ["maryam"]
    assert as_of[2]["run"] == run
    told = platform("model", "as-of", model, "--at", moments[2], *IN)
    assert re.search(r"^version +2$", told, re.MULTILINE)
    assert re.search(r"^approved by +maryam$", told, re.MULTILINE)
    assert re.search(r"^leaf +[0-9a-f]{32}$", told, re.MULTILINE)
    history = platform("model", "history", model, *IN)
    assert history.count("rollback") == 1
    assert "maryam" in history
    for line in history.splitlines()[1:]:
        moment, target = line.split()[0], line.split()[4]
        assert platform.json("model", "as-of", model, "--at", moment, *IN)["version"] == int(target)
    removal = platform.json("model", "remove-alias", model, "champion", "--yes", *IN, status=3)
    said = platform("model", "approve", removal["approval"].upper(), *IN, **second)
    assert f"falaj model remove-alias {model} champion --project default" in said
    platform("model", "withdraw", removal["approval"], *IN)
    platform("policy", "delete", "four-eyes", *IN)


def test_the_proof_of_a_move_can_be_checked_again(platform: Running, model: str):
    platform("model", "promote", model, "3", "--alias", "shadow", *IN)
    deadline = time.monotonic() + 20
    while (state := platform.json("model", "as-of", model, "--alias", "shadow", *IN))["proof"] is None:
        assert time.monotonic() < deadline, state["ledger"]
        time.sleep(0.2)
    proof = state["proof"]
    assert proof["head"]["size"] > proof["index"]
    assert json.loads(proof["record"])["id"] == state["leaf"]
    assert platform.json("audit", "prove", str(proof["index"]))["record"] == proof["record"]
    assert f"falaj audit prove {proof['index']}" in platform("model", "as-of", model, "--alias", "shadow", *IN)


def test_a_move_is_refused_or_withdrawn_and_an_alias_is_removed(platform: Running, model: str, tmp_path: Path):
    (tmp_path / "rule.cedar").write_text(RULE.replace("champion", "guarded"))
    platform("policy", "put", "guarded", str(tmp_path / "rule.cedar"), *IN)
    invited = platform.json("user", "create", "fatima")
    second = {"FALAJ_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **second)
    platform("project", "member", "add", "default", "fatima", "validator")
    wish = platform.json("model", "promote", model, "1", "--alias", "guarded", *IN, status=3)["approval"]
    assert "refused" in platform("model", "refuse", wish, "--note", "not yet", *IN, **second)
    again = platform.json("model", "promote", model, "1", "--alias", "guarded", *IN, status=3)["approval"]
    assert again != wish
    assert "withdrawn" in platform("model", "withdraw", again, *IN)
    assert wish in platform("model", "approvals", model, "--state", "closed", *IN)
    platform("model", "promote", model, "1", "--alias", "free", *IN)
    assert "no version now" in platform("model", "remove-alias", model, "free", "--yes", *IN)


def test_the_lineage_of_a_version_is_drawn(platform: Running, model: str, run: str):
    told = platform("model", "lineage", model, "1", *IN)
    assert "came from" in told
    assert run in told
    assert platform("lineage", "show", "version", f"{model}/1", *IN) == told
    newest, note = platform.both("lineage", "show", "model", model, *IN)
    assert newest == platform("lineage", "show", "version", f"{model}/3", *IN)
    assert f"{model}/3" in note
    assert platform("lineage", "show", "version", model, *IN) == newest
    down = platform("lineage", "show", "run", run.upper(), *IN)
    assert "led to" in down
    assert "card-fraud" in down


def test_a_version_is_talked_about_and_deleted(platform: Running, run: str):
    platform("model", "create", "short-lived", *IN)
    platform("model", "register", "short-lived", run, "model", *IN)
    platform("comment", "add", "version", "short-lived/1", "not for long", *IN)
    assert "not for long" in platform("comment", "list", "version", "short-lived/1", *IN)
    assert "is gone" in platform("model", "delete", "short-lived", "1", "--yes", *IN)
    assert "is gone" in platform("model", "delete", "short-lived", "--yes", *IN)
    platform.fails("model", "show", "short-lived", *IN)


@given(st.lists(st.tuples(st.sampled_from(["promote", "rollback", "remove"]), st.integers(1, 4)), max_size=12))
def test_a_rollback_asks_about_the_version_that_the_platform_goes_back_to(moves):
    made = [
        Move(
            id=f"{place:032x}",
            alias="champion",
            kind=kind,
            before=0,
            version=0 if kind == "remove" else version,
            by=Person(id="", name=""),
            at=Moment(place),
            approval="",
            approvers=(),
            reason="",
        )
        for place, (kind, version) in enumerate(moves)
    ]
    now, *earlier = line_of(made[::-1]) or [0]
    left = {1, 2, 3}
    assert next((version for version in earlier if version in left and version != now), 0) == previous(made, left)


def test_a_rollback_with_nothing_before_says_so_and_does_not_ask(platform: Running, run: str):
    platform("model", "create", "young", *IN)
    platform("model", "register", "young", run, "model", *IN)
    platform("model", "promote", "young", "1", "--alias", "shadow", *IN)
    told = platform.fails("model", "rollback", "young", "--alias", "shadow", *IN)
    assert "no version left that shadow of young pointed at before" in told


def test_an_alias_or_a_model_that_never_was_is_told_apart_from_an_empty_answer(platform: Running, model: str):
    platform("model", "promote", model, "3", "--alias", "known", *IN)
    told = platform.fails("model", "as-of", model, "--alias", "knwon", *IN)
    assert "never had an alias knwon" in told
    assert "known" in told.split("its aliases:")[1]
    assert "is no time" in platform.fails("model", "as-of", model, "--at", "", *IN, status=2)
    assert "typo" in platform.fails("model", "approvals", "typo", *IN)
    platform("model", "approvals", model, *IN)


def test_aliases_and_models_typed_wrong_are_told_in_plain_words(platform: Running, model: str):
    assert "an alias has letters" in platform.fails("model", "promote", model, "1", "--alias", "a b", *IN, status=2)
    assert "neither '/' nor ':'" in platform.fails("model", "show", f"{model}/1", *IN, status=2)
    assert "32 hexadecimal" in platform.fails("model", "approve", "12", *IN, status=2)
    assert "32 hexadecimal" in platform.fails("model", "register", model, "m-12", *IN, status=2)
    assert "MODEL/3" in platform.fails("comment", "add", "version", model, "a word", *IN, status=2)
