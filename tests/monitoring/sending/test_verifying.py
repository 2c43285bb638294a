"""What the documentation tells receivers to run verifies what is really sent, and nothing else."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from falaj.base.clock import SECOND, Moment
from falaj.monitoring.alerting import What
from falaj.monitoring.sending.channels import Channel, new_secret
from falaj.monitoring.sending.delivering import deliver
from falaj.monitoring.sending.events import Event
from tests.monitoring.sending.receivers import Web, serving

PAGE = Path(__file__).parents[3] / "docs" / "monitoring-alerts.md"
NOW = Moment.parse("2026-11-15T09:30:00Z")
SECONDS = NOW / SECOND
SECRET = new_secret()
EVENT = Event(
    id="1",
    kind="alert.raised",
    project="bank",
    endpoint="fraud",
    title="amount drifts",
    sentence="amount is 0.31 away: größer.",
    facts={"effect": 0.31},
    severity="warning",
    at=NOW,
)


@pytest.fixture(scope="module")
def verified() -> Callable[..., dict[str, Any]]:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    return names["verified"]


@pytest.fixture(scope="module")
def sent() -> tuple[dict[str, str], bytes]:
    with serving(Web) as server:
        channel = Channel(name="hook", kind="webhook", url=f"http://localhost:{server.port}/", secret=SECRET)
        deliver(channel, EVENT, now=NOW, allow_private=True)
        [(_, headers, body)] = server.got
    return headers, body


def test_what_was_sent_is_taken(verified: Any, sent: Any) -> None:
    event = verified(SECRET, *sent, now=SECONDS + 10)
    assert (event["type"], event["data"]["sentence"]) == ("falaj.alert.raised", EVENT.sentence)
    headers, body = sent
    several = headers | {"webhook-signature": f"v1,b2xk {headers['webhook-signature']}"}
    assert verified(SECRET, several, body, now=SECONDS) == event


@pytest.mark.parametrize("later", [-301, 301])
def test_what_is_repeated_later_is_not(verified: Any, sent: Any, later: int) -> None:
    with pytest.raises(ValueError, match="too old"):
        verified(SECRET, *sent, now=SECONDS + later)


def test_nor_is_what_somebody_changed(verified: Any, sent: Any) -> None:
    headers, body = sent
    changed = [
        (new_secret(), headers, body),
        (SECRET, headers | {"webhook-id": "2"}, body),
        (SECRET, headers | {"webhook-timestamp": str(int(SECONDS) + 1)}, body),
        (SECRET, headers, body.replace(b"warning", b"info")),
        (SECRET, headers | {"webhook-signature": "v1,"}, body),
    ]
    for secret, its_headers, its_body in changed:
        with pytest.raises(ValueError, match="not signed"):
            verified(secret, its_headers, its_body, now=SECONDS)


def test_the_kinds_of_message_are_all_told_of() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| (?!`)", PAGE.read_text(), re.MULTILINE)) >= set(get_args(What))
