"""Cards: which there are, what those of one attempt do, and parts of them, through NVIDIA's own programs.

A part of a card is held in two ways: the card's MPS daemon (`mps`) gives a process no more memory and no more of its cores than
its part; and whoever holds more memory than that all the same is ended by its keeper.
"""

import os
import re
import shutil
import subprocess
import threading
from typing import Final, NamedTuple

from falaj.jobs.running.orders import Part

_CARD: Final = 1000
_SHARED_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_PAUSE: Final = 1.0
_STATES: Final = "--query-gpu=uuid,utilization.gpu,power.draw,memory.used,memory.total"
_PATIENCE: Final = 20.0
_PIPES_INSIDE: Final = "/falaj/mps"
_CONTEXT_MIB: Final = 1024  # what CUDA takes for itself before a program takes anything
_MAKERS: Final = ("NVIDIA", "Tesla", "GeForce", "Quadro", "Generation", "Graphics", "Device")
_FAMILIES: Final = ("RTX", "GTX", "TITAN")
_LISTED: Final = re.compile(r"^GPU (\d+): (.+) \(UUID: (GPU-[0-9a-f-]+)\)")
_SLICED: Final = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")


class Card(NamedTuple):
    """Something a job can hold: a whole card, or a MIG device of one, whose model is `H100/1g.10gb`."""

    id: str
    model: str
    memory_mib: int
    nodes: tuple[str, ...]


class State(NamedTuple):
    """What a card says of itself: busy in percent, power in watts, and its memory."""

    busy: float | None  # None for one that does not say, as those that are cut up into MIG devices
    watts: float
    memory_used_mib: int = 0
    memory_mib: int = 0


def cards() -> list[Card]:
    """In the order that the driver lists them; none without a driver."""
    listed = _ask("-L")
    if not listed.startswith("GPU "):
        return []
    about = _ask("--query-gpu=uuid,memory.total,index", "--format=csv,noheader,nounits")
    return read_cards(listed, about)


def read_cards(listed: str, about: str) -> list[Card]:
    """From what `nvidia-smi -L` and a query for uuid, memory.total and index say."""
    memory = {fields[0]: int(_number(fields[1])) for fields in _rows(about) if len(fields) >= 2}
    found: list[Card] = []
    whole: Card | None = None
    for line in listed.splitlines():
        if match := _LISTED.match(line):
            index, name, identity = match.groups()
            whole = Card(identity, model_of(name), memory.get(identity, 0), (f"/dev/nvidia{index}", *_SHARED_NODES))
            found.append(whole)
        elif (match := _SLICED.match(line)) and whole is not None:
            profile, _, identity = match.groups()
            if found[-1] == whole:
                found.pop()  # what is cut up is not given as a whole
            size = re.search(r"\.(\d+)gb", profile)
            nodes = (*whole.nodes, "/dev/nvidia-caps")
            found.append(Card(identity, f"{whole.model}/{profile}", int(size[1]) * 1024 if size else 0, nodes))
    return found


def model_of(name: str) -> str:
    """`NVIDIA H100 80GB HBM3` is an H100: what people write when they ask for one."""
    words = [word for word in name.split() if word not in _MAKERS and not re.fullmatch(r"\d+GB|HBM\w*", word)]
    if not words:
        return name
    return " ".join(words) if words[0] in _FAMILIES else words[0].partition("-")[0]


def read_states(text: str) -> dict[str, State]:
    """From a query for uuid, utilization.gpu, power.draw, memory.used and memory.total."""
    return {
        fields[0]: State(
            None if fields[1].startswith("[") else _number(fields[1]),
            _number(fields[2]),
            *(int(_number(field)) for field in fields[3:5]),
        )
        for fields in _rows(text)
        if len(fields) >= 3
    }


def read_processes(text: str) -> list[tuple[str, int, int]]:
    """(card, pid, MiB) from a query of compute-apps for gpu_uuid, pid and used_memory."""
    rows = (fields for fields in _rows(text) if len(fields) >= 3 and fields[1].isdigit())
    return [(fields[0], int(fields[1]), int(_number(fields[2]))) for fields in rows]


class Asking:
    """Asks all cards of the host again and again, in a thread, for the driver may take its time."""

    def __init__(self, pause: float, *, about_processes: bool) -> None:
        self.states: dict[str, State] = {}
        self.processes: list[tuple[str, int, int]] = []
        self._pause, self._about_processes = pause, about_processes
        self._closed = threading.Event()
        threading.Thread(target=self._ask_again_and_again, name="asking cards", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _ask_again_and_again(self) -> None:
        while not self._closed.is_set():
            self.states = read_states(_ask(_STATES, "--format=csv,noheader,nounits"))
            if self._about_processes:
                apps = _ask("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
                self.processes = read_processes(apps)
            self._closed.wait(self._pause)


class Watched:
    """The cards of one attempt."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts
        self._asking = Asking(_PAUSE, about_processes=True) if parts else None
        self.held_seconds = self.busy_seconds = self.joules = 0.0
        self.memory_mib = 0  # that it holds now

    @property
    def is_measured(self) -> bool:
        """Whether the energy is: nothing is where there are no cards."""
        return self._asking is None or any(state.watts for state in self._asking.states.values())

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for part in self._parts for node in part.nodes))

    @property
    def writable(self) -> tuple[tuple[str, str], ...]:
        """What the sandbox needs of MPS daemons."""
        return tuple((part.pipes, f"{_PIPES_INSIDE}/{part.number}") for part in self._parts if part.pipes)

    def variables(self, seen: tuple[str, ...]) -> dict[str, str]:
        """What tells CUDA about the part of a card that a task has."""
        told = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if seen else {}
        if seen and (libraries := os.environ.get("LD_LIBRARY_PATH")):
            told["LD_LIBRARY_PATH"] = libraries  # where some hosts keep the driver's
        for part in self._parts:
            if part.pipes and part.id in seen:
                told |= {
                    "CUDA_MPS_PIPE_DIRECTORY": f"{_PIPES_INSIDE}/{part.number}",
                    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, part.milli * 100 // _CARD // part.tasks)),
                    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={part.memory_mib // part.tasks}M",
                }
        return told

    def look(self, pids: list[int], seconds: float) -> str:
        """Counts the time since the last look; says which part was too small for what its processes hold."""
        if self._asking is None:
            return ""
        ours, problem, memory = set(pids), "", 0
        states, processes = self._asking.states, self._asking.processes
        for part in self._parts:
            share = part.milli / _CARD
            state = states.get(part.id)
            self.held_seconds += seconds * share
            held = sum(size for card, pid, size in processes if card == part.id and pid in ours)
            # Some drivers name no processes, or not as we know them; what is taken of a whole card is its holder's.
            memory += held or (state.memory_used_mib if state is not None and share == 1 else 0)
            if state is not None and (held or share == 1):
                self.busy_seconds += seconds * min(share, (state.busy or 0.0) / 100)
                self.joules += seconds * state.watts * share
            if share < 1 and part.memory_mib and held > part.memory_mib + _CONTEXT_MIB:
                problem = f"it took {held} MiB of card {part.number}, of which it has {part.memory_mib} MiB"
        self.memory_mib = memory
        return problem

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()


def _ask(*arguments: str) -> str:
    """What nvidia-smi says; nothing where it cannot."""
    program = shutil.which("nvidia-smi", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/local/nvidia/bin")
    if program is None:
        return ""
    try:
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _rows(text: str) -> list[list[str]]:
    return [[field.strip() for field in line.split(",")] for line in text.splitlines() if "," in line]


def _number(text: str) -> float:
    """Of a field; `[N/A]` and the like are none."""
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return 0.0
