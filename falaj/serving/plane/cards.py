"""What the host's GPUs do, as their driver says; nothing where there is no driver, or it does not say."""

from pathlib import Path
from typing import Final

from falaj.jobs.running.gpus import Asking
from falaj.serving.operations.loads import CardLoad

_DRIVER: Final = Path("/dev/nvidiactl")
_PAUSE: Final = 10.0  # seconds between two questions: each takes a moment of a core


class Cards:
    def __init__(self) -> None:
        self._asking = Asking(_PAUSE, about_processes=False) if _DRIVER.exists() else None

    def loads(self) -> tuple[CardLoad, ...]:
        """As they were when the driver was last asked; waits for nobody."""
        if self._asking is None:
            return ()
        return tuple(
            CardLoad(
                busy=None if state.busy is None else state.busy / 100,
                memory_mib=state.memory_mib,
                memory_used_mib=state.memory_used_mib,
            )
            for state in self._asking.states.values()
        )

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()
