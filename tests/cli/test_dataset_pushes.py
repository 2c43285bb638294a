"""Pushing rows from the command line of a running platform, and over plain HTTP."""

import json
from pathlib import Path

import httpx

from tests.cli.conftest import Running


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_lines_are_pushed_shown_while_they_wait_and_made_a_version(platform: Running, tmp_path: Path):
    given = lines(*({"id": number, "name": f"n{number}"} for number in range(5)))
    told = platform.json("dataset", "push", "events", "--create", "--rows", "2", input=given)
    assert (told["dataset"], told["rows"]) == ("events", 5)
    (tmp_path / "more.jsonl").write_text("\n" + lines({"id": 5}, {"id": 6}))
    made = platform.json("dataset", "push", "events", str(tmp_path / "more.jsonl"), "--flush")
    assert made["rows"] == 7
    found = platform.json("dataset", "query", "SELECT id FROM events")
    assert [row[0] for row in found["rows"]] == list(range(7))
    assert "Nothing that was pushed to events waits" in platform("dataset", "pushed", "events")
    assert platform.json("dataset", "show", "events")["pushes"]["waiting"] == 0


def test_a_line_that_does_not_fit_is_told_and_what_was_safe_is_said(platform: Running):
    platform("dataset", "push", "measured", "--create", "--flush", input=lines({"id": 1}))
    told = platform.fails(
        "dataset", "push", "measured", "--rows", "2", input=lines({"id": 2}, {"id": 3}, {"id": "four"}), status=2
    )
    assert "Line 3, column 'id'" in told
    assert "The first 2 rows are safe, and no others." in told
    assert "No row was pushed" in platform.fails("dataset", "push", "measured", input="{\n", status=2)
    assert "longer than 8 MiB" in platform.fails("dataset", "push", "measured", input="x" * (9 << 20), status=2)
    assert "no dataset 'absent'" in platform.fails("dataset", "push", "absent", input=lines({"id": 1}))
    platform("dataset", "push", "measured", "--flush", input=lines({"id": 4}))
    assert platform.json("dataset", "show", "measured")["rows"] == 4


def test_anything_that_speaks_http_pushes(platform: Running):
    platform("dataset", "push", "tills", "--create", "--flush", input=lines({"id": 1}))
    token = json.loads((platform.home / "credentials.json").read_text())["token"]
    url, headers = f"{platform.url}/v1/projects/default/datasets/tills/pushes", {"authorization": f"Bearer {token}"}
    for again in (False, True):
        answer = httpx.post(f"{url}?key=till-7", content=b'{"id": 2}', headers=headers, trust_env=False)
        assert (answer.status_code, answer.json()["rows"], answer.json()["again"]) == (200, 1, again)
    refused = httpx.post(url, content=b'{"id": "two"}', headers=headers, trust_env=False)
    assert (refused.status_code, "column 'id'" in refused.json()["detail"]) == (400, True)
    waits = httpx.get(url, headers=headers, trust_env=False).json()
    assert waits["waiting_rows"] in (0, 1)
