"""Where a plane keeps what it must have to answer alone: its way in, the last state, the models, all but the key sealed."""

import os
from pathlib import Path

from falaj.base.files import write_durably
from falaj.base.values import value
from falaj.keys.sealing import KEY_SIZE, new_key


@value
class PlaneHome:
    """Paths of one plane. `keys` lies elsewhere, so that whoever copies the one has not copied the other."""

    path: Path
    keys: Path

    @property
    def join(self) -> Path:
        """With the token that it shows to the platform: among the keys, for whoever has that gets every model of the zone."""
        return self.keys / "plane.json"

    @property
    def state(self) -> Path:
        return self.path / "state.sealed"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def answers(self) -> Path:
        """Asynchronous answers until they are fetched."""
        return self.path / "answers"

    @property
    def watched(self) -> Path:
        """What taps keep for themselves."""
        return self.path / "watched"

    @property
    def broken(self) -> Path:
        """Which revisions are quarantined here, and why."""
        return self.path / "broken.json"

    @property
    def unloaded(self) -> Path:
        """Which endpoints were unloaded here, and the revisions they had then."""
        return self.path / "unloaded.json"

    @property
    def running(self) -> Path:
        """Process id and address, while it runs."""
        return self.path / "running.json"

    @property
    def port(self) -> Path:
        """Where it listened last, for callers go on asking there."""
        return self.path / "port"

    @property
    def news(self) -> Path:
        """Changes when there is a new state; written by a control plane on this very host, so that nobody need ask often."""
        return self.path / "news"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def log(self) -> Path:
        return self.path / "plane.log"

    def prepare(self) -> None:
        for directory in (self.path, self.keys, self.models, self.answers, self.watched):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def key(self) -> bytes:
        """The key that everything here is sealed with, made on the first start."""
        file = self.keys / "plane.key"
        if not file.exists():
            write_durably(file, new_key())
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            key = stream.read()
        if len(key) != KEY_SIZE:
            raise ValueError(
                f"{file} is not a key of {KEY_SIZE} bytes; put the right one back, or remove the plane and join anew"
            )
        return key
