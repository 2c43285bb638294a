"""What every `KeyRing` promises. Inherit and provide the fixture `ring`."""

import threading

import pytest

from falaj.base.errors import Invalid
from falaj.keys.errors import KeyDestroyed, KeyNotFound, Unopenable
from falaj.keys.ring import KeyRing, Wrapped


class KeyRingConformance:
    @pytest.fixture
    def ring(self) -> KeyRing:
        raise NotImplementedError("provide the ring under test")

    def test_a_wrapped_secret_opens_again(self, ring: KeyRing) -> None:
        ring.create("alpha")
        wrapped = ring.wrap("alpha", b"secret" * 5, b"here")
        assert ring.unwrap("alpha", wrapped, b"here") == b"secret" * 5
        assert b"secret" not in wrapped.data

    def test_wrapping_twice_gives_different_bytes(self, ring: KeyRing) -> None:
        ring.create("alpha")
        assert ring.wrap("alpha", b"same", b"").data != ring.wrap("alpha", b"same", b"").data

    def test_creating_twice_changes_nothing(self, ring: KeyRing) -> None:
        assert ring.create("alpha") == 1
        wrapped = ring.wrap("alpha", b"x", b"")
        assert ring.create("alpha") == 1
        assert ring.unwrap("alpha", wrapped, b"") == b"x"

    def test_another_context_is_refused(self, ring: KeyRing) -> None:
        ring.create("alpha")
        wrapped = ring.wrap("alpha", b"x", b"here")
        for context in (b"", b"there", b"here\0", b"her"):
            with pytest.raises(Unopenable):
                ring.unwrap("alpha", wrapped, context)

    def test_another_keys_secret_is_refused(self, ring: KeyRing) -> None:
        ring.create("alpha")
        ring.create("beta")
        with pytest.raises(Unopenable):
            ring.unwrap("beta", ring.wrap("alpha", b"x", b""), b"")

    def test_a_secret_claimed_to_be_of_another_version_is_refused(self, ring: KeyRing) -> None:
        ring.create("alpha")
        wrapped = ring.wrap("alpha", b"x", b"")
        ring.rotate("alpha")
        with pytest.raises(Unopenable):
            ring.unwrap("alpha", Wrapped(version=2, data=wrapped.data), b"")

    def test_every_changed_bit_and_every_cut_is_refused(self, ring: KeyRing) -> None:
        ring.create("alpha")
        wrapped = ring.wrap("alpha", b"0123", b"c")
        size = len(wrapped.data)
        flipped = [(int.from_bytes(wrapped.data) ^ 1 << bit).to_bytes(size) for bit in range(size * 8)]
        cut = [wrapped.data[:end] for end in range(size)]
        for changed in (*flipped, *cut, wrapped.data + b"\0"):
            with pytest.raises(Unopenable):
                ring.unwrap("alpha", Wrapped(version=wrapped.version, data=changed), b"c")

    def test_what_older_versions_wrapped_opens_after_rotation(self, ring: KeyRing) -> None:
        ring.create("alpha")
        wrapped = [ring.wrap("alpha", b"0", b"")]
        for number in range(1, 4):
            assert ring.rotate("alpha") == number + 1
            wrapped.append(ring.wrap("alpha", b"%d" % number, b""))
        assert [w.version for w in wrapped] == [1, 2, 3, 4]
        assert [ring.unwrap("alpha", w, b"") for w in wrapped] == [b"0", b"1", b"2", b"3"]
        assert [v.version for v in ring.versions("alpha")] == [1, 2, 3, 4]

    def test_a_destroyed_version_opens_nothing_and_leaves_the_others(self, ring: KeyRing) -> None:
        ring.create("alpha")
        old = ring.wrap("alpha", b"old", b"")
        ring.rotate("alpha")
        new = ring.wrap("alpha", b"new", b"")
        ring.destroy("alpha", 1)
        ring.destroy("alpha", 1)
        with pytest.raises(KeyNotFound):
            ring.unwrap("alpha", old, b"")
        assert ring.unwrap("alpha", new, b"") == b"new"
        assert [v.version for v in ring.versions("alpha")] == [2]

    def test_a_destroyed_key_stays_destroyed(self, ring: KeyRing) -> None:
        ring.create("alpha")
        ring.create("beta")
        ring.rotate("alpha")
        wrapped = ring.wrap("alpha", b"x", b"")
        ring.destroy("alpha")
        ring.destroy("alpha")
        with pytest.raises(KeyDestroyed):
            ring.unwrap("alpha", wrapped, b"")
        with pytest.raises(KeyDestroyed):
            ring.wrap("alpha", b"x", b"")
        with pytest.raises(KeyDestroyed):
            ring.create("alpha")
        assert ring.versions("alpha") == ()
        assert ring.names() == ("beta",)

    def test_an_unknown_name_is_told(self, ring: KeyRing) -> None:
        for call in (
            lambda: ring.wrap("nobody", b"", b""),
            lambda: ring.unwrap("nobody", Wrapped(version=1, data=bytes(60)), b""),
            lambda: ring.rotate("nobody"),
            lambda: ring.destroy("nobody"),
        ):
            with pytest.raises(KeyNotFound):
                call()
        assert ring.versions("nobody") == ()

    @pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "a" * 101, "a\0", "a\n"])
    def test_a_name_that_is_none_is_refused(self, ring: KeyRing, name: str) -> None:
        with pytest.raises(Invalid):
            ring.create(name)

    def test_threads_share_a_ring_while_it_rotates(self, ring: KeyRing) -> None:
        ring.create("alpha")
        failures: list[Exception] = []

        def use() -> None:
            try:
                for _ in range(25):
                    assert ring.unwrap("alpha", ring.wrap("alpha", b"x", b"c"), b"c") == b"x"
            except Exception as error:  # noqa: BLE001 - whatever it was, the test shows it
                failures.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        made = [ring.rotate("alpha") for _ in range(5)]
        for thread in threads:
            thread.join()
        assert not failures
        assert made == [2, 3, 4, 5, 6]
