"""A few steps in full: every kernel and operation with its times, as a trace to open in a browser and as a table."""

import gzip
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import profiler

from falaj.training.profiling.names import TABLE, TRACE

_LOG: Final = logging.getLogger("falaj.training")
_AFTER: Final = 10  # steps, which compile and compare
_WARMING: Final = 2  # steps in which the recording itself warms up
_ACTIVE: Final = 3
OVER: Final = _AFTER + _WARMING + _ACTIVE + 1  # steps after which it takes no more time
_ROWS: Final = 40
_MOST: Final = 256 << 20  # bytes of an unpacked trace; one that is larger no browser opens


class DeepProfile:
    """Records once. `keep(path, name)` is given what was made; `folder` must outlive that."""

    def __init__(self, folder: Path, keep: Callable[[Path, str], None]) -> None:
        self._folder, self._keep = folder, keep
        self._recording: Any = None
        self._steps = 0

    def stepped(self) -> None:
        self._steps += 1
        if self._recording is not None:
            self._recording.step()
        if self._steps == _AFTER:
            self._begin()
        elif self._steps == _AFTER + _WARMING + _ACTIVE:
            self.close()

    def close(self) -> None:
        """What is recorded so far is kept: a short training has a short trace."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.stop()

    def _begin(self) -> None:
        kinds = [profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(profiler.ProfilerActivity.CUDA)
        self._recording = profiler.profile(
            activities=kinds,
            schedule=profiler.schedule(wait=0, warmup=_WARMING, active=_ACTIVE, repeat=1),
            on_trace_ready=self._store,
            acc_events=True,
        )
        self._recording.start()

    def _store(self, recorded: Any) -> None:
        plain, packed = self._folder / "trace.json", self._folder / TRACE
        packed.parent.mkdir(parents=True, exist_ok=True)
        try:
            device = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
            table = self._folder / TABLE
            table.write_text(recorded.key_averages().table(sort_by=device, row_limit=_ROWS, max_name_column_width=80))
            self._keep(table, TABLE)
            recorded.export_chrome_trace(str(plain))
            if plain.stat().st_size > _MOST:
                _LOG.warning("The trace of %d steps is too large to be opened, and is not kept; its table is", _ACTIVE)
                return
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=5) as target:
                shutil.copyfileobj(source, target)
            self._keep(packed, TRACE)
        except (OSError, RuntimeError) as error:
            _LOG.warning("The deep profile could not be kept: %s", error)
        finally:
            plain.unlink(missing_ok=True)
