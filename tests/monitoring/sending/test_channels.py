"""An address is looked at before it is kept, and what is secret in it is never shown again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.monitoring.sending.channels import SCHEMES, Channel, Kind, check_written, new_secret

SECRET = new_secret()


def webhook(url: str, secret: str = SECRET) -> Channel:
    return Channel(name="hook", kind="webhook", url=url, secret=secret)


def service(url: str, secret: str = "") -> Channel:
    return Channel(name="chat", kind="apprise", url=url, secret=secret)


@pytest.mark.parametrize(
    ("channel", "inside"),
    [
        (webhook("https://hooks.example.com/a?b=c"), False),
        (webhook("https://93.184.216.34/"), False),
        (webhook("https://10.0.0.5/"), True),
        (webhook("http://localhost:9000/"), True),
        (webhook("http://[::1]:9000/"), True),
        (service("mailtos://user:password@example.com"), False),
    ],
)
def test_what_may_be_an_address_is_taken(channel: Channel, inside: bool) -> None:
    check_written(channel, allow_private=True)
    if inside:
        with pytest.raises(Invalid):
            check_written(channel, allow_private=False)
    else:
        check_written(channel, allow_private=False)


@pytest.mark.parametrize(
    "channel",
    [
        webhook(""),
        webhook("hooks.example.com"),
        webhook("ftp://example.com/"),
        webhook("https://user:password@example.com/"),
        webhook("http://example.com/"),
        webhook("http://10.0.0.5/"),
        webhook("https://169.254.169.254/"),
        webhook("https://[fd00:ec2::254]/"),
        webhook("https://0.0.0.0/"),
        webhook("https://example.com/", secret=""),
        webhook("https://example.com/", secret="whsec_short"),
        webhook("https://example.com/", secret="whsec_" + "A" * 200),
        webhook("https://example.com/", secret=SECRET.removeprefix("whsec_")),
        service(""),
        service("slack"),
        service("slack://"),
        service("slack://a b"),
        service("slack://a\r\nb"),
        service("slack://" + "a" * 2000),
        service("SLACK://a/b/c"),
        service("slack://a/b/c", secret=SECRET),
        *[
            service(f"{scheme}://example.com/")
            for scheme in ("json", "jsons", "xml", "form", "https", "file", "exec", "syslog")
        ],
        *[service(f"{scheme}://example.com/") for scheme in ("dbus", "gnome", "macosx", "windows", "ntfy", "msteams")],
    ],
)
def test_what_cannot_be_one_is_refused_wherever_receivers_may_be(channel: Channel) -> None:
    with pytest.raises(Invalid):
        check_written(channel, allow_private=True)


def test_what_is_refused_names_what_can_be_had() -> None:
    with pytest.raises(Invalid, match=", ".join(SCHEMES)):
        check_written(service("syslog://local"), allow_private=True)


@pytest.mark.parametrize(
    ("channel", "shown"),
    [
        (webhook("https://hooks.example.com/services/T0/B0/abc?key=def"), "https://hooks.example.com/***"),
        (webhook("https://hooks.example.com:8443/"), "https://hooks.example.com:8443/"),
        (service("slack://TXXX/BXXX/secret"), "slack://***"),
        (service("mailtos://user:password@example.com?to=ada@example.com"), "mailtos://***@example.com"),
        (service("mailtos://[broken"), "***"),
        (webhook("broken"), "***"),
    ],
)
def test_secrets_are_not_shown(channel: Channel, shown: str) -> None:
    assert channel.shown == shown
    assert SECRET not in repr(channel)
    assert channel.url not in repr(channel) or channel.url == shown


@given(st.sampled_from(["webhook", "apprise"]), st.text(max_size=60))
def test_any_text_is_an_address_or_refused(kind: Kind, text: str) -> None:
    channel = Channel(name="c", kind=kind, url=text, secret=SECRET if kind == "webhook" else "")
    assert channel.shown
    try:
        check_written(channel, allow_private=False)
    except Invalid:
        return
    assert text.startswith("https://") or text.partition("://")[0] in SCHEMES
