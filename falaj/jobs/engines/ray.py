"""Jobs on a Ray cluster, each a Ray job of its own, spoken to through Ray's HTTP API alone.

What runs there is `ray_driver`, which travels along with what it needs of us: nothing of ours is installed on a cluster. What
the two tell each other is in `ray_letters`. The engine itself keeps nothing that it could not ask for again.
"""

import hashlib
import io
import re
import shlex
import time
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import falaj
from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, Misconfigured, TooLarge, Unavailable
from falaj.base.values import value
from falaj.jobs.engines import ray_letters
from falaj.jobs.engines.engine import CardUse, Launch, Seen
from falaj.jobs.engines.gang_certificates import gang_certificates
from falaj.jobs.engines.ray_letters import NODES, OWNER, SEGMENT, STATUS, Ended, Order, Status
from falaj.jobs.engines.understanding import Senseless
from falaj.jobs.running.limits import MIB
from falaj.jobs.running.log import dropped, segment_name
from falaj.jobs.scheduler.values import CARD, Node

if TYPE_CHECKING:
    import httpx

_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PATIENCE: Final = 20.0
_CARDS_PAUSE: Final = 8.0  # seconds between two questions for what cards do
_MOST_NODES: Final = 10_000  # that Ray tells of at once
_LARGEST_SOURCE: Final = 400 * MIB  # Ray keeps packages of less than 500
_ZONE_LABEL, _RACK_LABEL, _MODEL_LABEL = "falaj/zone", "falaj/rack", "ray.io/accelerator-type"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_OVER: Final = ("SUCCEEDED", "FAILED", "STOPPED")
# All that the program needs; besides it, Ray and what Python brings along.
_PROGRAM: Final = ("__init__.py", "base/*.py", "jobs/__init__.py", "jobs/engines/*.py", "jobs/running/*.py")
_PROGRAM_TOO: Final = (
    *("jobs/scheduler/__init__.py", "jobs/scheduler/values.py"),
    *("runtimes/__init__.py", "runtimes/bubblewrap.py", "runtimes/processes.py"),
)


@value
class RayCluster:
    """Where it is and how to speak to it. `interpreter` is the one on its head, by its whole path; `owner` tells platforms
    apart that share a cluster; `zone` is where its hosts are, unless a label says otherwise. `is_private` is the policy's word
    that nobody listens between us and its head. `checkpoints` is where jobs keep theirs on every host."""

    address: str
    token: str
    zone: str
    interpreter: str = "python3"
    owner: str = "falaj"
    is_private: bool = False
    checkpoints: str = ""


class RayEngine:
    """Thread-safe."""

    name = "ray"

    def __init__(self, cluster: RayCluster) -> None:
        import httpx  # here and below: a platform without a cluster starts without it

        _check_cluster(cluster)
        self._cluster = cluster
        headers = {"Authorization": f"Bearer {cluster.token}"}
        self._with_cards: Mapping[str, Node] = {}  # hosts, by Ray's ids
        self._card_uses: Mapping[str, Sequence[CardUse | None]] = {}
        self._asked_cards = -_CARDS_PAUSE
        self._http = httpx.Client(base_url=cluster.address.rstrip("/"), headers=headers, timeout=_PATIENCE, trust_env=False)

    def nodes(self) -> Sequence[Node]:
        found = [(about["node_id"], self._node(about)) for about in self._nodes().values()]
        self._with_cards = {id: node for id, node in found if node.cards}
        return [node for _, node in found if node.cpu_milli and node.memory_mib]

    def cards(self) -> Mapping[str, Sequence[CardUse | None]]:
        """Of the hosts that `nodes` last told of: Ray's agents ask their drivers, and tell what they last heard."""
        if self._with_cards and time.monotonic() - self._asked_cards >= _CARDS_PAUSE:
            self._asked_cards = time.monotonic()
            answer = self._ask("GET", "/nodes", params={"view": "summary"}).json()
            self._card_uses = ray_letters.card_uses(answer["data"]["summary"], self._with_cards)
        return self._card_uses

    def start(self, launch: Launch) -> None:
        _check(launch)
        if self._about(launch.attempt) is not None:
            return
        ids = {name: about["node_id"] for name, about in self._nodes().items()}
        nodes = tuple(ids.get(seat.node, "") for seat in launch.seats)
        order = Order(launch=launch, nodes=nodes, tls=_tls(launch), checkpoints=self._cluster.checkpoints)
        program = self._bring_program()
        self._put(ray_letters.order_letter(launch.attempt), ray_letters.written(order, _source(launch)), expires=True)
        command = [self._cluster.interpreter, "-m", "falaj.jobs.engines.ray_driver", launch.attempt]
        document = {
            "entrypoint": f"exec {shlex.join(command)}",
            "submission_id": launch.attempt,
            "runtime_env": {"working_dir": f"{ray_letters.STORE}://{program}"},
            "metadata": {
                OWNER: self._cluster.owner,
                NODES: " ".join(dict.fromkeys(seat.node for seat in launch.seats)),
                SEGMENT: str(ray_letters.segment_size(launch.limits.log_mib)),
            },
        }
        answer = self._ask("POST", "/api/jobs/", json=document, also=(500,))
        if answer.status_code == 500 and self._about(launch.attempt) is None:  # where it is there, somebody was faster
            raise Unavailable(f"Ray did not take attempt {launch.attempt}: {_last_line(answer)}")

    def stop(self, attempt: str, grace: int) -> None:
        about = self._about(attempt)
        if about is not None and about["status"] in _OVER:
            return
        self._put(ray_letters.stop_letter(attempt, grace), b"-")
        if about is not None and grace <= 0:
            # It heard already, or does not listen: Ray sees to it either way.
            self._ask("POST", f"/api/jobs/{attempt}/stop", also=(404, 500))

    def look(self) -> Sequence[Seen]:
        return [_seen(about) for about in self._ask("GET", "/api/jobs/").json() if self._is_ours(about)]

    def log(self, attempt: str, offset: int, limit: int) -> tuple[bytes, int]:
        about, at = self._about(attempt), max(0, offset)
        if about is None:
            return b"", 0
        if not about["driver_node_id"]:
            return b"", at
        segments = _Segments(self, about["driver_node_id"], attempt)
        size, found = int(about["metadata"][SEGMENT]), list[bytes]()
        while limit > 0:
            start = at - at % size if size else 0
            whole = segments.read(start)
            if whole is None:
                following = segments.first_after(at)
                if following is None:
                    break
                found.append(dropped(following - at))
                at = following
                continue
            part = whole[at - start : at - start + limit]
            found.append(part)
            at, limit = at + len(part), limit - len(part)
            if not size or len(whole) < size:
                break
        return b"".join(found), at

    def forget(self, attempt: str) -> None:
        about = self._about(attempt)
        if about is None:
            return
        if about["status"] not in _OVER:
            raise Conflict(f"Attempt {attempt} has not ended: stop it first")
        self._put(ray_letters.forgotten_letter(attempt), b"-", expires=True)
        self._ask("DELETE", f"/api/jobs/{attempt}", also=(404,))

    def close(self) -> None:
        self._http.close()

    # Attempts

    def _about(self, attempt: str) -> dict[str, Any] | None:
        if not _ATTEMPT.fullmatch(attempt):
            raise Invalid(f"{attempt[:100]!r} is no id of an attempt")
        answer = self._ask("GET", f"/api/jobs/{attempt}", also=(404,))
        about: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return about if self._is_ours(about) else None

    def _is_ours(self, about: Mapping[str, Any]) -> bool:
        return about.get("type") == "SUBMISSION" and (about["metadata"] or {}).get(OWNER) == self._cluster.owner

    # Hosts

    def _nodes(self) -> dict[str, dict[str, Any]]:
        """Those that live, by the names we know them by: people see where they are, and no two are the same."""
        answer = self._ask("GET", "/api/v0/nodes", params={"detail": "1", "limit": str(_MOST_NODES)}).json()
        found = (about for about in answer["data"]["result"]["result"] if about["state"] == "ALIVE")
        return dict(sorted((_name(about), about) for about in found))

    def _node(self, about: Mapping[str, Any]) -> Node:
        total, labels = about["resources_total"], about["labels"] or {}
        kinds = (name.removeprefix("accelerator_type:") for name in total if name.startswith("accelerator_type:"))
        model = labels.get(_MODEL_LABEL) or next(kinds, "GPU")
        return Node(
            name=_name(about),
            zone=labels.get(_ZONE_LABEL, self._cluster.zone),
            cpu_milli=int(total.get("CPU", 0) * 1000),
            memory_mib=int(total.get("memory", 0)) // MIB,
            cards=(model,) * int(total.get("GPU", 0)),
            rack=labels.get(_RACK_LABEL, ""),
            sharing=("whole",),  # which card a part would be of is Ray's to choose, and it keeps nobody from the rest of it
        )

    # Packages

    def _bring_program(self) -> str:
        """Its name; Ray keeps it for as long as somebody asks for it."""
        name, program = _program()
        if self._ask("GET", _package(name), also=(404,)).status_code == 404:
            self._put(name, program, expires=True)
        return name

    def _put(self, name: str, content: bytes, *, expires: bool = False) -> None:
        """Whoever asks for a package bespeaks it for ten minutes; what nobody else uses then, Ray removes."""
        self._ask("PUT", _package(name), content=content)
        if expires:
            self._ask("GET", _package(name), also=(404,))

    # Speaking

    def _ask(self, method: str, path: str, *, also: tuple[int, ...] = (), **given: Any) -> "httpx.Response":
        """An answer that says 200, or something of `also`."""
        import httpx

        try:
            answer = self._http.request(method, path, **given)
        except httpx.HTTPError as error:
            raise Unavailable(f"Ray at {self._cluster.address} does not answer: {str(error) or type(error).__name__}") from None
        if answer.status_code in (401, 403):
            raise Unavailable(f"Ray at {self._cluster.address} does not know our token: see [jobs] ray_token")
        if answer.status_code != 200 and answer.status_code not in also:
            raise Unavailable(f"Ray at {self._cluster.address} answers {answer.status_code}: {_last_line(answer)}")
        return answer


class _Segments:
    """Of a log that a driver wrote on its host."""

    def __init__(self, engine: RayEngine, node: str, attempt: str) -> None:
        self._engine, self._node, self._folder = engine, node, f"{ray_letters.LOGS}/{attempt}"

    def read(self, start: int) -> bytes | None:
        """None where there is none."""
        name = f"{self._folder}/{segment_name(start)}"
        query = {"node_id": self._node, "filename": name, "lines": "-1"}
        answer = self._engine._ask("GET", "/api/v0/logs/file", params=query, also=(500,))
        if answer.status_code == 500 and "not found" not in answer.text:
            raise Unavailable(f"Ray cannot read a log: {_last_line(answer)}")
        return answer.content if answer.status_code == 200 else None

    def first_after(self, offset: int) -> int | None:
        query = {"node_id": self._node, "glob": f"{self._folder}/*"}
        listed = self._engine._ask("GET", "/api/v0/logs", params=query).json()["data"]["result"]
        starts = [Path(name).name for names in listed.values() for name in names]
        return min((int(start) for start in starts if start.isdigit() and int(start) > offset), default=None)


def _name(about: Mapping[str, Any]) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._:-]', '-', about['node_name'])}-{about['node_id'][:8]}"


def _seen(about: Mapping[str, Any]) -> Seen:
    metadata: Mapping[str, str] = about["metadata"]
    status = _status(metadata)
    nodes = tuple(metadata.get(NODES, "").split())
    if about["status"] not in _OVER:
        state: Any = "preparing" if status.started is None else "running"
        return Seen(attempt=about["submission_id"], state=state, started=status.started, used=status.used, nodes=nodes)
    ended = status.ended or _unsaid(about)
    return Seen(
        attempt=about["submission_id"],
        state="ended",
        started=status.started,
        ended=ended.at,
        cause=ended.cause,
        code=ended.code,
        words=ended.words,
        used=status.used,
        nodes=nodes,
    )


def _status(metadata: Mapping[str, str]) -> Status:
    try:
        return ray_letters.status_understood(metadata[STATUS]) if STATUS in metadata else Status()
    except Senseless:  # as if it had not spoken: what Ray says of it still holds
        return Status()


def _unsaid(about: Mapping[str, Any]) -> Ended:
    """Of one whose driver went before it could say how it ended: what Ray says."""
    at = Moment((about["end_time"] or about["start_time"] or 0) * 1000)
    if about["status"] == "STOPPED":
        return Ended(cause="stopped", code=None, words="it was stopped by Ray", at=at)
    lines = (about["message"] or "").strip().splitlines()
    return Ended(cause="lost", code=None, words=f"Ray lost it: {lines[-1][:300] if lines else 'it does not say why'}", at=at)


def _check_cluster(cluster: RayCluster) -> None:
    """Raises `Misconfigured` where anybody could do what we do there, or hear what we say."""
    if not cluster.token:
        raise Misconfigured(
            "a Ray without a token runs what anybody sends it: start it with RAY_AUTH_MODE=token, set [jobs] ray_token"
        )
    url = urlsplit(cluster.address)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise Misconfigured(f"{cluster.address!r} is no address of a Ray dashboard, such as http://10.0.0.5:8265")
    if url.scheme == "http" and url.hostname not in _LOOPBACK and not cluster.is_private:
        raise Misconfigured(
            f"secrets would pass to {cluster.address} for everybody on the way to read: put TLS before it and write https://, "
            "or say with [jobs] private_network that the network is private"
        )


def _source(launch: Launch) -> bytes | None:
    if launch.source is None:
        return None
    most, whole = min(_LARGEST_SOURCE, launch.limits.disk_mib * MIB or _LARGEST_SOURCE), bytearray()
    for chunk in launch.source():
        whole += chunk
        if len(whole) > most:
            raise TooLarge(f"The source of a job may take {most // MIB} MiB on a Ray cluster")
    return bytes(whole)


def _check(launch: Launch) -> None:
    if launch.environment.image:
        raise Invalid("The Ray engine runs no container images: a lock file makes an environment on the hosts")
    if launch.shape.gpus and launch.shape.gpu_milli < CARD:
        raise Invalid("The Ray engine gives whole GPUs alone")
    if launch.shape.gpus and _is_spread(launch) and not launch.private_network:
        raise Invalid(
            "Tasks with GPUs on several hosts talk through NCCL, which encrypts nothing: ask for tasks on one host, "
            "or say with [jobs] private_network that the network between the hosts is private"
        )


def _is_spread(launch: Launch) -> bool:
    return len({seat.node for seat in launch.seats}) > 1


def _tls(launch: Launch) -> tuple[str, str, str] | None:
    if not _is_spread(launch) or launch.private_network:
        return None
    return gang_certificates(launch.attempt, launch.limits.seconds)


@cache
def _program() -> tuple[str, bytes]:
    """A name that says what is in it, and the files as they are here."""
    root = Path(falaj.__file__).parent
    files = sorted({file for pattern in (*_PROGRAM, *_PROGRAM_TOO) for file in root.glob(pattern)})
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.writestr(zipfile.ZipInfo(str(file.relative_to(root.parent)), (1980, 1, 1, 0, 0, 0)), file.read_bytes())
    content = whole.getvalue()
    return f"falaj_program_{hashlib.sha256(content).hexdigest()[:32]}.zip", content


def _package(name: str) -> str:
    return f"/api/packages/{ray_letters.STORE}/{name}"


def _last_line(answer: "httpx.Response") -> str:
    lines = answer.text.strip().splitlines()
    return lines[-1][:300] if lines else "nothing"
