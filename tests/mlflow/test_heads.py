"""Who asks, and where: read from the raw head of a request."""

import base64

import pytest

from falaj.api.mlflow.heads import credentials_of, head_of, segments_of
from falaj.base.errors import Unauthenticated


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


def test_a_token_comes_as_a_bearer_or_as_the_password_of_anybody() -> None:
    assert credentials_of(()) is None
    assert credentials_of((b"Bearer falaj_x",)) == "falaj_x"
    assert credentials_of((b"bearer  falaj_x ",)) == "falaj_x"
    assert credentials_of((basic("amal:falaj_x"),)) == "falaj_x"
    assert credentials_of((basic(":falaj_x"),)) == "falaj_x"
    assert credentials_of((basic("a:b:c"),)) == "b:c"


@pytest.mark.parametrize(
    "sent",
    [
        (b"Bearer a", b"Bearer b"),
        (b"Bearer",),
        (b"Bearer  ",),
        (b"Basic !!!",),
        (basic("no colon"),),
        (basic("amal:"),),
        (b"Basic /w==",),
        (b"Digest x",),
        (b"",),
    ],
)
def test_what_proves_nothing_is_refused(sent: tuple[bytes, ...]) -> None:
    with pytest.raises(Unauthenticated, match="MLFLOW_TRACKING_TOKEN"):
        credentials_of(sent)


def test_a_head_says_workspace_host_and_kind() -> None:
    head = head_of([(b"x-mlflow-workspace", b" fraud "), (b"host", b"h:1"), (b"content-type", b"Application/JSON; charset=x")])
    assert (head.workspace, head.host, head.kind) == ("fraud", "h:1", b"application/json")


def test_an_encoded_slash_stays_within_its_part() -> None:
    assert segments_of(b"/a%2Fb/c%20d/%2e%2e") == ("", "a/b", "c d", "..")


def test_what_is_not_utf_8_becomes_a_character_that_no_name_has() -> None:
    assert segments_of(b"a%ff") == ("a\x00",)
