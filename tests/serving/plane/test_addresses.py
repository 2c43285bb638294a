"""Callbacks go where the endpoint lists, and a name never leads into somebody's house."""

import pytest

from falaj.base.errors import Forbidden
from falaj.base.webhooks import target_of
from falaj.serving.plane.addresses import check_listed, may_connect, source_of


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://hooks.example.com/a?b=c", "hooks.example.com"),
        ("https://HOOKS.example.com/a", "hooks.EXAMPLE.com"),
        ("https://hooks.example.com:8443/", "hooks.example.com:8443"),
        ("https://hooks.example.com/", "hooks.example.com:443"),
        ("http://localhost:9000/", "localhost:9000"),
        ("http://127.0.0.1:9000/", "127.0.0.1"),
        ("http://[::1]:9000/", "[::1]"),
        ("http://[0:0:0:0:0:0:0:1]:9000/", "[::1]:9000"),
        ("https://10.0.0.5/", "10.0.0.5"),
    ],
)
def test_a_listed_host_is_permitted(url: str, entry: str) -> None:
    check_listed(target_of(url), ["other.example.com", entry])


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://evil.example.com/", "example.com"),
        ("https://example.com.evil.com/", "example.com"),
        ("https://example.com:8443/", "example.com:443"),
        ("http://example.com/", "example.com"),
        ("http://10.0.0.5/", "10.0.0.5"),
        ("https://127.0.0.1/", "localhost"),
        ("https://localhost./", "localhost"),
    ],
)
def test_what_is_not_listed_or_not_encrypted_is_forbidden(url: str, entry: str) -> None:
    with pytest.raises(Forbidden):
        check_listed(target_of(url), [entry])


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "fd00::1", "::ffff:10.1.2.3", "nowhere"])
def test_a_listed_name_never_leads_inside(address: str) -> None:
    assert not may_connect(target_of("https://hooks.example.com/"), address)


def test_a_listed_name_leads_to_the_open_internet_and_an_address_to_itself_alone() -> None:
    assert may_connect(target_of("https://hooks.example.com/"), "93.184.216.34")
    assert may_connect(target_of("https://hooks.example.com/"), "2606:4700::1111")
    assert may_connect(target_of("https://10.0.0.5/"), "10.0.0.5")
    assert not may_connect(target_of("https://10.0.0.5/"), "10.0.0.6")
    assert may_connect(target_of("http://localhost/"), "127.0.0.1")
    assert not may_connect(target_of("http://localhost/"), "10.0.0.5")
    assert not may_connect(target_of("http://localhost/"), "93.184.216.34")


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        (("10.1.2.3", 4000), "10.1.2.3"),
        (("2001:db8:1:2:aaaa::1", 4000, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:bbbb::9", 1, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        (("::ffff:10.1.2.3", 1, 0, 0), "::ffff:10.1.2.3"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_caller_comes_from_its_address_or_of_ipv6_from_its_house(peer: object, source: str):
    assert source_of(peer) == source
