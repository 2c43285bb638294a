from contextlib import ExitStack

import pytest

from falaj.base.errors import TooMany
from falaj.wire.uploads import UploadSlots


def test_a_caller_has_its_share_and_gets_it_back() -> None:
    slots = UploadSlots(total=10, each=2)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(slots.hold("one"))
        with pytest.raises(TooMany) as refusal, slots.hold("one"):
            pass
        assert refusal.value.delay >= 1
        with slots.hold("another"):
            pass
    with slots.hold("one"):
        pass


def test_all_callers_together_have_no_more_than_the_total() -> None:
    slots = UploadSlots(total=3, each=2)
    with ExitStack() as held:
        for caller in ("one", "one", "another"):
            held.enter_context(slots.hold(caller))
        with pytest.raises(TooMany), slots.hold("a third"):
            pass


def test_an_upload_that_fails_gives_its_slot_back() -> None:
    slots = UploadSlots(total=1, each=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), slots.hold(None):
            raise ZeroDivisionError
