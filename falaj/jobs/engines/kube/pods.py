"""What pods and the Jobs above them say, read as how an attempt goes on or ended. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from falaj.base.clock import MINUTE, Moment
from falaj.base.values import value
from falaj.jobs.engines.engine import Cause
from falaj.jobs.engines.kube.manifests import TASK

Object = Mapping[str, Any]
_WELL: Final = ("Complete", "Completed", "SuccessCriteriaMet")
_BADLY: Final = ("Failed", "FailureTarget")
_DISK: Final = re.compile(r"ephemeral|emptydir|disk|storage", re.IGNORECASE)
_HOPELESS: Final = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
_NO_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
_PATIENCE: Final = 5 * MINUTE  # with a registry; a Secret that is about to come takes less
_NOT_STARTED: Final = ("StartError", "ContainerCannotRun")
_RANK: Final = "jobset.sigs.k8s.io/job-global-index"


@value
class Ending:
    cause: Cause
    code: int | None = None
    words: str = ""


@value
class Reading:
    """`began` and `over` are when its first command began and its last one ended; `ending` is None while it goes on."""

    began: Moment | None = None
    over: Moment | None = None
    ending: Ending | None = None
    is_running: bool = False


def read(workload: Object, pods: Sequence[Object], now: Moment) -> Reading:
    states = [_task(pod) for pod in pods]
    began = [moment for state in states if (moment := _moment((state.get("running") or _over(state)).get("startedAt")))]
    over = [moment for state in states if (moment := _moment(_over(state).get("finishedAt")))]
    conditions = {one["type"]: one for one in workload.get("status", {}).get("conditions") or () if one.get("status") == "True"}
    ending = None
    if any(kind in conditions for kind in _WELL):
        ending = Ending(cause="done", code=0)
    elif failed := next((conditions[kind] for kind in _BADLY if kind in conditions), None):
        ending = _failure(pods, failed)
        if not over and (moment := _moment(failed.get("lastTransitionTime"))):
            over = [moment]
    elif stuck := next(filter(None, (_stuck(pod, now) for pod in pods)), None):
        ending = stuck
    return Reading(
        began=min(began, default=None),
        over=max(over, default=None),
        ending=ending,
        is_running=any(state.get("running") for state in states),
    )


def is_active(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def is_running(pod: Object) -> bool:
    return bool(_task(pod).get("running"))


def rank(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(_RANK, 0))


def has_written(pod: Object) -> bool:
    """Whether its command has begun, so that there may be a log."""
    return bool(_task(pod).get("running") or _over(_task(pod)))


def _failure(pods: Sequence[Object], condition: Object) -> Ending:
    """By the pod that failed first: the others ended because of it."""
    endings = [(when, ending) for pod in pods if (ending := _pod_failure(pod, many=len(pods) > 1)) for when in [_when(pod)]]
    if endings:
        return min(endings, key=lambda one: one[0])[1]
    if condition.get("reason") == "DeadlineExceeded":
        return Ending(cause="timeout", words="it took longer than it may")
    return Ending(cause="lost", words=f"its pods are gone: {condition.get('message') or condition.get('reason') or 'unsaid'}")


def _pod_failure(pod: Object, *, many: bool) -> Ending | None:
    status = pod.get("status", {})
    if status.get("phase") != "Failed":
        return None
    reason, message = status.get("reason", ""), status.get("message", "")
    whom = f"task {rank(pod)}" if many else "it"
    if reason == "DeadlineExceeded":
        return Ending(cause="timeout", words=f"{whom} took longer than it may")
    if reason == "Evicted" and _DISK.search(message) and "node was low" not in message:
        return Ending(cause="disk", words=f"{whom} filled more disk than it may: {message}"[:500])
    if any(one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in status.get("conditions") or ()):
        return Ending(cause="lost", words=f"{whom} was put off its node: {message or reason}"[:500])
    for fetched in status.get("initContainerStatuses") or ():
        if (end := _over(fetched.get("state") or {})).get("exitCode"):
            said = str(end.get("message") or end.get("reason") or "").strip()
            return Ending(cause="environment", words=(said.splitlines() or ["its source cannot be had"])[-1][:500])
    end = _over(_task(pod))
    if end.get("reason") == "OOMKilled":
        return Ending(cause="memory", code=end.get("exitCode"), words=f"{whom} took more memory than it asked for")
    if end.get("reason") in _NOT_STARTED:
        return Ending(cause="failed", code=127, words=f"{whom} cannot be run: {end.get('message', '')}"[:500])
    if end.get("exitCode"):
        return Ending(cause="failed", code=end["exitCode"], words=f"{whom} ended with {end['exitCode']}")
    return Ending(cause="lost", words=f"{whom} ended without saying how: {reason or message or 'its node went away'}"[:500])


def _stuck(pod: Object, now: Moment) -> Ending | None:
    """A pod that Kubernetes would try to begin for ever."""
    status = pod.get("status", {})
    since = _moment(status.get("startTime")) or now
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, told = waiting.get("reason", ""), waiting.get("message") or ""
        late = now - since > _PATIENCE
        if reason == "InvalidImageName" or (late and reason in (*_HOPELESS, *_NO_IMAGE)):
            return Ending(
                cause="environment", words=f"its image {container.get('image', '')} cannot be run: {reason} {told}"[:500]
            )
    return None


def _containers(status: Object) -> Iterable[Object]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _task(pod: Object) -> Object:
    for container in pod.get("status", {}).get("containerStatuses") or ():
        if container.get("name") == TASK:
            state: Object = container.get("state") or {}
            return state
    return {}


def _over(state: Object) -> Object:
    return state.get("terminated") or {}


def _when(pod: Object) -> Moment:
    return _moment(_over(_task(pod)).get("finishedAt")) or Moment(1 << 62)


def _moment(text: str | None) -> Moment | None:
    return Moment.parse(text) if text else None
