"""What several owners share: who has much of it gets no more when little is left, so that there is some for the next."""

from typing import Final

# What an owner has may be so many times what is left: alone it gets two thirds, and each of n gets 2/(2n + 1).
GREED: Final = 2


class Shares:
    """Of `most` so much is `taken`. Owners are remembered: they are few, or their shares are soon thrown away."""

    __slots__ = ("_shares", "most", "taken")

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._shares: dict[str, Share] = {}

    def of(self, owner: str) -> "Share":
        """Always the same for the same owner."""
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = Share(self)
        return share


class Share:
    """What one owner has. Who has nothing yet gets whatever is left; and where nobody has anything, one may have more than
    there is, or it would never be let in."""

    __slots__ = ("taken", "whole")

    def __init__(self, whole: Shares) -> None:
        self.whole = whole
        self.taken = 0

    def fits(self, size: int) -> bool:
        whole, mine = self.whole, self.taken
        left = whole.most - whole.taken - size
        return not whole.taken or (left >= 0 and (not mine or mine + size <= GREED * left))

    def take(self, size: int) -> bool:
        """What `fits` says, and then `hold`, in fewer steps."""
        whole, mine = self.whole, self.taken
        taken = whole.taken
        left = whole.most - taken - size
        if taken and (left < 0 or (mine and mine + size > GREED * left)):
            return False
        whole.taken = taken + size
        self.taken = mine + size
        return True

    def hold(self, size: int) -> None:
        """Counts what is there already, whether or not it fits."""
        self.whole.taken += size
        self.taken += size

    def give(self, size: int) -> None:
        self.whole.taken -= size
        self.taken -= size
