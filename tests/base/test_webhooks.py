"""A message leaves for the open internet alone, or for where the operator says; and its receiver can tell who sent it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid, PermanentError
from falaj.base.webhooks import is_here, is_open, is_receiver, signature, target_of


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "ftp://example.com/",
        "https:///path",
        "https://user:pass@example.com/",
        "https://example.com/#part",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://example.com/a b",
        "https://example.com/\r\nx: y",
        "https://exämple.com/",
        "https://[::1/",
        "https://example.com/" + "a" * 2000,
    ],
)
def test_what_is_no_url_for_a_message_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        target_of(url)


INSIDE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1%eth0",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "fec0::1",
    "::127.0.0.1",
    "64:ff9b:1::a9fe:a9fe",
    "100.100.100.200",
    "fd00:ec2::254",
    "168.63.129.16",
    "localhost",
    "",
]


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_inside_is_not_open(address: str) -> None:
    assert not is_open(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822"])
def test_the_open_internet_is_open(address: str) -> None:
    assert is_open(address)
    assert is_receiver(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.1.1", "::1", "fd00::1", "::ffff:10.1.2.3"])
def test_somebody_may_listen_inside(address: str) -> None:
    assert is_receiver(address)


METADATA = [
    "169.254.169.254",
    "100.100.100.200",
    "fd00:ec2::254",
    "fe80::1%eth0",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:2::a9fe:a9fe",
    "::169.254.169.254",
    "fd20:ce::254",
]


@pytest.mark.parametrize("address", [*METADATA, "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "", "localhost"])
def test_where_clouds_hand_out_credentials_nobody_listens(address: str) -> None:
    assert not is_receiver(address)


def test_this_machine_is_known_by_its_names() -> None:
    assert all(map(is_here, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_here, ("localhost.evil.com", "10.0.0.1", "")))


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        target = target_of(text)
    except Invalid:
        return
    assert target.host
    assert all(letter.isprintable() and letter not in "\r\n " for letter in target.path + target.authority)


def test_the_signature_is_that_of_the_public_convention() -> None:
    # The example that the reference implementations of Standard Webhooks are tested with.
    given = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}'
    )
    assert given == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_that_cannot_be_read_signs_nothing() -> None:
    with pytest.raises(PermanentError, match="cannot be read"):
        signature("whsec_???", "a", "1", b"")
