"""Jobs as pods of a Kubernetes cluster, behind Kueue where the cluster has it. Experimental: it has not yet run against a real
API server.

The engine keeps nothing but copies of logs: what it knows of an attempt is in the cluster (`kube.records`), so that any number
of engines, one after another or at once, see and do the same.
"""

import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from falaj.base.clock import HOUR, SECOND, Clock, Moment
from falaj.base.errors import Conflict, FalajError, Unavailable
from falaj.jobs.engines.engine import Launch, Seen
from falaj.jobs.engines.gang_certificates import gang_certificates
from falaj.jobs.engines.kube import manifests
from falaj.jobs.engines.kube.api import Access, Api, Object
from falaj.jobs.engines.kube.hosts import Host, Zones, host_of, taken_by
from falaj.jobs.engines.kube.logs import FollowedLogs
from falaj.jobs.engines.kube.manifests import ATTEMPT, MANAGED, Reach, Wishes, name_of
from falaj.jobs.engines.kube.pods import Ending, Reading, is_active, is_running, read
from falaj.jobs.engines.kube.records import Record, Records, Stop, ended_text
from falaj.jobs.engines.kube.usage import METRICS, Usage
from falaj.jobs.running import locks
from falaj.jobs.scheduler.values import CARD, Node

_JOBS: Final = ("batch/v1", "jobs")
_JOBSETS: Final = ("jobset.x-k8s.io/v1alpha2", "jobsets")
_OURS: Final = ",".join(f"{key}={text}" for key, text in MANAGED.items())
_OTHERS: Final = ",".join(f"{key}!={text}" for key, text in MANAGED.items())
_UNMADE: Final = 60 * SECOND  # after which whoever began an attempt is not coming back to make its Job
_HOSTS_FRESH: Final = 15 * SECOND
_STOPPED: Final = "it was told to end"

Resolve = Callable[[str, int | None], Sequence[str]]


def _resolved(name: str, port: int | None) -> Sequence[str]:
    """The addresses of a host, as the platform sees them."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"{name} has no address now: {error}.") from None
    return tuple(dict.fromkeys(str(address[4][0]) for address in found))


class KubernetesEngine:
    """Thread-safe. `directory` is for copies of logs; `fresh` is how long a look at the cluster counts, in microseconds."""

    name = "kubernetes"

    def __init__(
        self,
        access: Access,
        directory: Path,
        clock: Clock,
        *,
        wishes: Wishes,
        zones: Zones,
        resolve: Resolve = _resolved,
        fresh: int = SECOND,
    ) -> None:
        self._api = Api(access)
        self._records = Records(self._api)
        self._logs = FollowedLogs(directory)
        self._clock, self._wishes, self._zones, self._resolve, self._fresh = clock, wishes, zones, resolve, fresh
        self._usage = Usage()
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._seen: Sequence[Seen] = ()
        self._seen_until = self._clean_at = Moment(0)
        self._changes, self._seen_changes = 0, 0  # by this engine; what it did it sees at once
        self._hosts: dict[str, Host] = {}
        self._hosts_until = Moment(0)
        self._is_closed_off = False

    # Hosts

    def nodes(self) -> Sequence[Node]:
        return [host.node for host in self._known_hosts().values()]

    def _known_hosts(self) -> dict[str, Host]:
        now = self._clock.now()
        with self._lock:
            if now < self._hosts_until:
                return self._hosts
        others = taken_by(self._api.list("/api/v1/pods", labelSelector=_OTHERS))
        told = (
            host_of(node, self._zones, others.get(node["metadata"]["name"], {})) for node in self._api.list("/api/v1/nodes")
        )
        hosts = {host.node.name: host for host in told if host is not None}
        with self._lock:
            self._hosts, self._hosts_until = hosts, Moment(now + _HOSTS_FRESH)
        return hosts

    # How attempts begin

    def start(self, launch: Launch) -> None:
        name_of(launch.attempt)
        order = {"nodes": [seat.node for seat in launch.seats], "gpus": launch.shape.gpus * max(1, len(launch.seats))}
        data = {"order": json.dumps(order | {"log_mib": launch.limits.log_mib, "several": len(launch.seats) > 1})}
        if refusal := _refusal(launch):
            ending = Ending(cause="environment", words=refusal)
            data["ended"] = ended_text(ending, None, self._clock.now(), self._usage.of(launch.attempt, 0.0))
            self._records.add(launch.attempt, data)
            self._look_again()
            return
        hosts = self._seats(launch)
        reaches = self._reaches(launch)
        manifest = manifests.workload(launch, hosts, reaches, self._wishes)  # raises before anything of it is there
        record = self._records.add(launch.attempt, data) or self._records.find(launch.attempt)
        self._look_again()
        if record is None:
            raise Unavailable(f"The record of attempt {launch.attempt} came and went.")
        if not (record.is_made or record.is_over or record.stop):
            self._make(launch, record, manifest, reaches)
            self._look_again()

    def _make(self, launch: Launch, record: Record, manifest: Object, reaches: Sequence[Reach]) -> None:
        if not self._is_closed_off:
            self._api.create(self._api.inside(manifests.NETWORKING, "networkpolicies"), manifests.closed())
            self._is_closed_off = True
        path = self._api.inside(*(_JOBSETS if record.order["several"] else _JOBS))
        owner = self._api.create(path, manifest) or self._api.get(f"{path}/{name_of(launch.attempt)}")
        if owner is None:
            raise Unavailable(f"The Job of attempt {launch.attempt} came and went.")
        owner = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], **owner}
        gang = gang_certificates(launch.attempt, launch.limits.seconds) if manifests.is_encrypted(launch) else ()
        self._api.create(self._api.inside("", "secrets"), manifests.secret(launch, owner, self._wishes, gang))
        policies = self._api.inside(manifests.NETWORKING, "networkpolicies")
        self._api.create(policies, manifests.network(launch, owner, reaches))
        written = self._records.write(record, {"made": owner["metadata"]["uid"]})
        # Whoever stopped it meanwhile found no Job to remove.
        if written is None and ((again := self._records.find(launch.attempt)) is None or again.stop or again.is_over):
            self._api.delete(f"{path}/{name_of(launch.attempt)}")

    def _seats(self, launch: Launch) -> list[Host]:
        hosts = self._known_hosts()
        if gone := next((seat.node for seat in launch.seats if seat.node not in hosts), None):
            raise Unavailable(f"The cluster has no node {gone} any more.")
        return [hosts[seat.node] for seat in launch.seats]

    def _reaches(self, launch: Launch) -> list[Reach]:
        return [
            Reach(name=name, addresses=() if name == "*" else tuple(self._resolve(name, port)), port=port)
            for name, port in manifests.reached(launch, self._wishes)
        ]

    # How they end

    def stop(self, attempt: str, grace: int) -> None:
        name_of(attempt)
        now = self._clock.now()
        stop = Stop(at=int(now), until=int(now) + max(0, grace))
        text = json.dumps({"at": stop.at, "until": stop.until})
        self._look_again()
        for _ in range(10):
            record = self._records.find(attempt)
            if record is None:
                ending = Ending(cause="stopped", words="it was stopped before it was started")
                ended = ended_text(ending, None, now, self._usage.of(attempt, 0.0))
                if self._records.add(attempt, {"stop": text, "ended": ended}):
                    return None
            elif record.is_over:
                return None
            elif record.stop and record.stop.until <= stop.until:
                return self._press(record, record.stop, self._pods(attempt))
            elif (written := self._records.write(record, {"stop": text})) is not None:
                return self._press(written, stop, self._pods(attempt))
        raise Unavailable(f"The record of attempt {attempt} changes all the time.")

    def _press(self, record: Record, stop: Stop, pods: Sequence[Object]) -> None:
        """What runs is told to end, in a way that leaves its pod and log to be looked at: its deadline is over. When the grace
        is over too, or where nothing runs yet, it is removed."""
        patient = stop.until - self._clock.now() >= SECOND
        if not any(is_running(pod) for pod in pods):
            self._remove(record)
        for pod in filter(is_active, pods):
            path = f"{self._api.inside('', 'pods')}/{pod['metadata']['name']}"
            if not patient:
                self._api.delete(path, grace=1)
            elif is_running(pod) and pod["spec"].get("activeDeadlineSeconds") != 1:
                self._api.patch(path, {"spec": {"activeDeadlineSeconds": 1}})

    def _remove(self, record: Record) -> None:
        """Its Job and all that belongs to it."""
        path = self._api.inside(*(_JOBSETS if record.order.get("several") else _JOBS))
        self._api.delete(f"{path}/{name_of(record.attempt)}")

    def _pods(self, attempt: str) -> list[Object]:
        return list(self._api.list(self._api.inside("", "pods"), labelSelector=f"{ATTEMPT}={attempt}"))

    # What is known of them

    def look(self) -> Sequence[Seen]:
        with self._looking:
            changes = self._changes
            if changes != self._seen_changes or self._clock.now() >= self._seen_until:
                self._seen = self._look()
                self._seen_until, self._seen_changes = Moment(self._clock.now() + self._fresh), changes
            return self._seen

    def _look_again(self) -> None:
        with self._lock:
            self._changes += 1

    def _look(self) -> Sequence[Seen]:
        """Records come first: what was made after they were read is nobody's for this once."""
        records = list(self._records.all())
        workloads = {
            one["metadata"]["name"]: one
            for kind in (_JOBS, _JOBSETS)
            for one in self._api.list(self._api.inside(*kind), labelSelector=_OURS)
        }
        pods: dict[str, list[Object]] = {}
        for pod in self._api.list(self._api.inside("", "pods"), labelSelector=_OURS):
            pods.setdefault(pod["metadata"]["labels"].get(ATTEMPT, ""), []).append(pod)
        now = self._clock.now()
        self._measure(now)
        if now >= self._clean_at:
            self._records.clean(now)
            self._clean_at = Moment(now + HOUR)
        return [
            self._look_at(record, workloads.get(name_of(record.attempt)), pods.get(record.attempt, []), now)
            for record in records
        ]

    def _measure(self, now: Moment) -> None:
        try:
            told = list(self._api.list(self._api.inside(METRICS, "pods"), labelSelector=_OURS))
        except FalajError:  # a metrics server that is not there, or not now, says nothing about the jobs
            return
        self._usage.take(told, now)

    def _look_at(self, record: Record, workload: Object | None, pods: Sequence[Object], now: Moment) -> Seen:
        if record.ended is not None:
            return record.seen()
        reading = Reading() if workload is None else read(workload, pods, now)
        ending = self._ending(record, workload, reading, now)
        if record.started is None and reading.began is not None:
            record = self._records.write(record, {"started": str(int(reading.began))}) or record
        started = record.started or reading.began
        if ending is not None and (ended := self._end(record, reading, ending, pods, now)) is not None:
            return ended
        if record.stop is not None and workload is not None:
            self._press(record, record.stop, pods)
        used = self._usage.of(record.attempt, self._held(record, started, now))
        state: Any = "running" if started is not None and reading.is_running else "preparing"
        return Seen(attempt=record.attempt, state=state, started=started, used=used, nodes=record.nodes)

    def _ending(self, record: Record, workload: Object | None, reading: Reading, now: Moment) -> Ending | None:
        """Why it is over, where it is."""
        stopped = Ending(cause="stopped", words=_STOPPED)
        if workload is None:
            if record.stop is not None:
                return stopped
            if record.is_made:
                return Ending(cause="lost", words="somebody removed its Job")
            late = now - record.created > _UNMADE
            return Ending(cause="lost", words="whoever began it went away before its Job was made") if late else None
        if reading.ending is not None:
            is_asked_for = record.stop is not None and (reading.over or now) >= record.stop.at - SECOND
            return stopped if is_asked_for else reading.ending
        if record.started is not None and workload["spec"].get("suspend") and not reading.is_running:
            return Ending(cause="stopped", words="Kueue took its place for another workload")
        return None

    def _end(self, record: Record, reading: Reading, ending: Ending, pods: Sequence[Object], now: Moment) -> Seen | None:
        """Written down, with its last words; None where somebody else wrote at the same time, and the next look sees what."""
        self._logs.follow(self._api, record.attempt, list(pods), record.order.get("log_mib", 0))
        started = record.started or reading.began
        ended = reading.over or now
        used = self._usage.of(record.attempt, self._held(record, started, ended))
        written = self._records.write(record, {"ended": ended_text(ending, started, ended, used)})
        if written is None:
            return None
        if ending.cause in ("environment", "stopped"):  # it may be waiting for its turn, or for an image, still
            self._remove(record)
        self._usage.forget(record.attempt)
        return written.seen()

    def _held(self, record: Record, started: Moment | None, until: Moment) -> float:
        return 0.0 if started is None else float(record.order.get("gpus", 0)) * max(0, until - started) / SECOND

    def log(self, attempt: str, offset: int, limit: int) -> tuple[bytes, int]:
        record = self._records.find(attempt)
        if record is None or record.is_forgotten:
            return b"", 0
        if record.ended is None:
            self._logs.follow(self._api, attempt, self._pods(attempt), record.order.get("log_mib", 0))
        return self._logs.read(attempt, offset, limit)

    def forget(self, attempt: str) -> None:
        record = self._records.find(attempt)
        if record is None:
            return
        if not record.is_over:
            raise Conflict(f"Attempt {attempt} has not ended: stop it first")
        self._remove(record)
        self._records.forget(record, self._clock.now())
        self._logs.remove(attempt)
        self._look_again()

    def close(self) -> None:
        self._api.close()


def _refusal(launch: Launch) -> str:
    """Why it can never run here."""
    if launch.outputs:
        return "nobody keeps the outputs of pods: log them to the run, and declare none (--writes)"
    if launch.shape.gpus and len({seat.node for seat in launch.seats}) > 1 and not launch.private_network:
        return (
            "tasks with GPUs on several nodes talk through NCCL, which encrypts nothing: ask for tasks on one node, or say with"
            " [jobs] private_network that the network between the nodes is private"
        )
    if launch.shape.gpus and launch.shape.gpu_milli < CARD:
        return "parts of cards are MIG devices here: name a model such as H100/1g.10gb"
    if not launch.environment.lock:
        return ""
    try:
        locks.checked(launch.environment.lock)
    except locks.Unusable as problem:
        return str(problem)
    return "pods run container images: build the lock file into one and name it"
