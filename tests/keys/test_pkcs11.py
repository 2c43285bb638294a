"""The key ring in a token, on a real SoftHSM."""

import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pkcs11
import pytest

from falaj.base.clock import SystemClock
from falaj.base.errors import PermanentError, TemporaryError
from falaj.keys.pkcs11 import Pkcs11KeyRing
from falaj.keys.ring import KeyRing
from falaj.testing.keyrings import KeyRingConformance
from tests.servers.softhsm import SoftHsm

OpenRing = Callable[[], Pkcs11KeyRing]


@pytest.fixture
def open_ring(softhsm: SoftHsm) -> OpenRing:
    """Opens a ring in a token of this test's own."""
    label = f"falaj-{uuid.uuid4().hex[:16]}"
    softhsm.new_token(label)
    pkcs11.lib(softhsm.module).reinitialize()
    return lambda: Pkcs11KeyRing(module=Path(softhsm.module), token=label, pin=softhsm.pin, clock=SystemClock())


class TestPkcs11KeyRing(KeyRingConformance):
    @pytest.fixture
    def ring(self, open_ring: OpenRing) -> KeyRing:
        return open_ring()


def test_keys_cannot_leave_the_token(open_ring: OpenRing) -> None:
    ring = open_ring()
    ring.create("alpha")
    (key,) = ring._find("alpha")[1]
    assert key[pkcs11.Attribute.EXTRACTABLE] is False
    assert key[pkcs11.Attribute.SENSITIVE] is True
    assert key.key_length == 256
    with pytest.raises(pkcs11.AttributeSensitive):
        key[pkcs11.Attribute.VALUE]


def test_another_opening_unwraps_and_follows_rotation_and_destruction(open_ring: OpenRing) -> None:
    one, two = open_ring(), open_ring()
    one.create("alpha")
    two.create("alpha")
    assert two.unwrap("alpha", one.wrap("alpha", b"x", b"c"), b"c") == b"x"
    two.wrap("alpha", b"y", b"")
    one.rotate("alpha")
    one.destroy("alpha", 1)
    assert two.unwrap("alpha", two.wrap("alpha", b"y", b""), b"") == b"y"


def test_the_same_version_made_by_two_processes_at_once_still_opens(open_ring: OpenRing) -> None:
    ring = open_ring()
    ring.create("alpha")
    first = ring.wrap("alpha", b"first", b"")
    ring._make("alpha", 1)
    second = ring.wrap("alpha", b"second", b"")
    assert ring.unwrap("alpha", first, b"") == b"first"
    assert ring.unwrap("alpha", second, b"") == b"second"


def test_a_wrong_pin_or_a_missing_token_is_told(softhsm: SoftHsm) -> None:
    with pytest.raises(TemporaryError, match="cannot be opened"):
        Pkcs11KeyRing(module=Path(softhsm.module), token="nowhere", pin="1234", clock=SystemClock())


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pkcs11", None)
    with pytest.raises(PermanentError, match=r"pip install falaj\[hsm\]"):
        Pkcs11KeyRing(module=Path("any"), token="any", pin="any", clock=SystemClock())
