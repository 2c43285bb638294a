"""A test double for a Kubernetes cluster: no API server can be run where these tests run.

It speaks HTTP for real, holds every object against the published schemas (`published.py`) as strictly as an API server that
was asked to, and does as the controllers of Jobs, JobSets and Kueue and a kubelet are documented to do, with real processes for
containers (`kubelet.py`). What it takes for granted about them is what the engine has not been tried with yet.
"""

import base64
import datetime
import itertools
import json
import re
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.jobs.engines.kubelet import RunningPod
from tests.jobs.engines.published import Refused, validate

QUEUE = "kueue.x-k8s.io/queue-name"


def now_text():
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster:
    def __init__(self, folder, nodes, token="a-token"):
        self.folder, self.token = folder, token
        self.lock = threading.RLock()
        self.objects = {}  # by collection and name
        self.pods = {}  # what runs, by name
        self.admits = True  # whether Kueue does
        self.is_silent = False
        self.forbids = False
        self.calls = []
        self.platform = {}  # sources by path, for jobs' pods to get
        self._version = itertools.count(1)
        for node in nodes:
            self._store("/api/v1/nodes", node)
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._serve, self._control)]
        for thread in self._threads:
            thread.start()

    def _serve(self):
        self._server.serve_forever(poll_interval=0.02)

    def close(self):
        self._is_over.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(10)
        for pod in list(self.pods.values()):
            pod.kill()
            pod.join()

    def of(self, kind):
        """Every object of a collection, whatever its namespace."""
        with self.lock:
            return [one for (path, _), one in self.objects.items() if path.rsplit("/", 1)[1] == kind]

    # Storage

    def _store(self, path, body):
        body["metadata"].setdefault("uid", str(uuid.uuid4()))
        body["metadata"].setdefault("creationTimestamp", now_text())
        body["metadata"]["resourceVersion"] = str(next(self._version))
        self.objects[path, body["metadata"]["name"]] = body
        return body

    def create(self, path, body):
        validate(body)
        with self.lock:
            if (path, body["metadata"]["name"]) in self.objects:
                return None
            if "stringData" in body:
                texts = body.pop("stringData")
                body["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            return self._store(path, body)

    def patch(self, path, name, change):
        with self.lock:
            found = self.objects.get((path, name))
            if found is None:
                return 404, None
            wanted = change.get("metadata", {}).get("resourceVersion")
            if wanted and wanted != found["metadata"]["resourceVersion"]:
                return 409, None
            if path.endswith("/pods"):
                before, after = found["spec"].get("activeDeadlineSeconds"), change["spec"]["activeDeadlineSeconds"]
                if set(change) != {"spec"} or set(change["spec"]) != {"activeDeadlineSeconds"} or (before and after > before):
                    raise Refused("pod updates may not change fields other than activeDeadlineSeconds, and that only down")
            return 200, self._store(path, merged(found, change))

    def delete(self, path, name, options):
        validate(options)
        with self.lock:
            found = self.objects.get((path, name))
            if found is None:
                return None
            if path.endswith("/pods"):
                grace = options.get("gracePeriodSeconds", found["spec"]["terminationGracePeriodSeconds"])
                assert grace >= 1, "a pod that is forced away may go on running"
                if found["status"]["phase"] in ("Succeeded", "Failed"):
                    del self.objects[path, name]
                    self.pods.pop(name).join()
                else:
                    self.pods[name].end(time.monotonic() + grace)
                return found
            del self.objects[path, name]
            self._collect(found)
            return found

    def _collect(self, owner):
        """What belongs to what is gone goes."""
        uid = owner["metadata"]["uid"]
        for (path, name), one in list(self.objects.items()):
            if any(reference["uid"] == uid for reference in one["metadata"].get("ownerReferences", ())):
                self.delete(path, name, {"apiVersion": "v1", "kind": "DeleteOptions"})

    # Controllers

    def _control(self):
        while not self._is_over.wait(0.01):
            with self.lock:
                for (path, name), one in list(self.objects.items()):
                    kind = path.rsplit("/", 1)[1]
                    if (path, name) not in self.objects or kind not in ("jobs", "jobsets"):
                        continue
                    if one["spec"].get("suspend") and QUEUE in one["metadata"].get("labels", {}) and self.admits:
                        one["spec"]["suspend"] = False
                    if not one["spec"].get("suspend"):
                        (self._control_job if kind == "jobs" else self._control_set)(path, one)

    def evict(self):
        """Kueue takes back what it gave."""
        with self.lock:
            self.admits = False
            for one in [*self.of("jobs"), *self.of("jobsets")]:
                one["spec"]["suspend"] = True
            for name in list(self.pods):
                self.pods[name].end(time.monotonic() + 1)

    def _control_job(self, path, job):
        conditions = job.setdefault("status", {}).setdefault("conditions", [])
        if conditions:
            return
        pods = path.replace("/apis/batch/v1", "/api/v1").replace("/jobs", "/pods")
        owned = [pod for pod in self.of("pods") if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]]
        if not job["status"].get("startTime"):
            job["status"]["startTime"] = now_text()
            template = job["spec"]["template"]
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **{key: dict(template["metadata"].get(key, {})) for key in ("labels", "annotations")},
                    "name": f"{job['metadata']['name']}-0-{uuid.uuid4().hex[:5]}",
                    "ownerReferences": [reference(job)],
                },
                "spec": {**template["spec"], "nodeName": self._node(template["spec"])},
            }
            validate(pod)
            self._store(pods, pod | {"status": {"phase": "Pending"}})
            self.pods[pod["metadata"]["name"]] = RunningPod(self, pods, pod)
            return
        phases = {pod["status"]["phase"] for pod in owned}
        if phases == {"Succeeded"}:
            conditions.append({"type": "Complete", "status": "True", "lastTransitionTime": now_text()})
        elif not owned or phases == {"Failed"}:
            why = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
            conditions.append({"type": "Failed", "status": "True", "lastTransitionTime": now_text(), **why})

    def _node(self, spec):
        """Where the scheduler would put it: a node that every condition holds for."""
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        conditions = required["nodeSelectorTerms"][0]["matchExpressions"]
        for node in self.of("nodes"):
            labels = node["metadata"]["labels"]
            if (
                all(labels.get(one["key"]) in one["values"] for one in conditions)
                and spec.get("nodeSelector", {}).items() <= labels.items()
            ):
                return node["metadata"]["name"]
        raise AssertionError("no node takes this pod")

    def _control_set(self, path, one):
        conditions = one.setdefault("status", {}).setdefault("conditions", [])
        if conditions:
            return
        jobs = path.replace("jobset.x-k8s.io/v1alpha2", "batch/v1").replace("/jobsets", "/jobs")
        children = [
            job
            for job in self.of("jobs")
            if any(own["uid"] == one["metadata"]["uid"] for own in job["metadata"].get("ownerReferences", ()))
        ]
        if not children:
            index = itertools.count()
            for replicated in one["spec"]["replicatedJobs"]:
                for number in range(replicated["replicas"]):
                    rank = {"jobset.sigs.k8s.io/job-global-index": str(next(index))}
                    spec = json.loads(json.dumps(replicated["template"]["spec"]))
                    spec["template"]["metadata"]["annotations"] = rank
                    name = f"{one['metadata']['name']}-{replicated['name']}-{number}"
                    head = {
                        "name": name,
                        "labels": replicated["template"]["metadata"]["labels"],
                        "ownerReferences": [reference(one)],
                    }
                    self.create(
                        jobs, {"apiVersion": "batch/v1", "kind": "Job", "metadata": head, "spec": spec | {"suspend": False}}
                    )
            return
        ended = [condition["type"] for job in children for condition in job.get("status", {}).get("conditions", ())]
        if "Failed" in ended:
            why = {"reason": "FailedJobs", "message": "jobset failed due to one or more job failures"}
            conditions.append({"type": "Failed", "status": "True", "lastTransitionTime": now_text(), **why})
            for job in children:
                if not job.get("status", {}).get("conditions"):
                    self.delete(jobs, job["metadata"]["name"], {"apiVersion": "v1", "kind": "DeleteOptions"})
        elif len(ended) == len(children):
            conditions.append({"type": "Completed", "status": "True", "lastTransitionTime": now_text()})

    def metrics(self):
        with self.lock:
            running = list(self.pods.items())
        return [told for name, pod in running if (told := pod.measured(name)) is not None]


def reference(owner):
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def merged(found, change):
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    result = dict(found) if isinstance(found, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def selected(one, selector):
    labels = one["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, sign, text = re.fullmatch(r"([^!=]+)(!?=)(.*)", term).groups()
        if (labels.get(key) == text) != (sign == "="):
            return False
    return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as the base class wants it

    def _answer(self):
        parts = urlsplit(self.path)
        path, query = parts.path, {key: values[-1] for key, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        cluster = self.cluster
        cluster.calls.append((self.command, path))
        if path.startswith("/v1/projects/"):
            return self._send_source(path)
        if self.headers.get("authorization") != f"Bearer {cluster.token}":
            return self._say(401, "Unauthorized", "Unauthorized")
        if cluster.is_silent:
            return self._say(503, "ServiceUnavailable", "etcd has no leader")
        if cluster.forbids:
            return self._say(403, "Forbidden", "configmaps is forbidden: User cannot list resource")
        try:
            return getattr(self, f"_{self.command.lower()}")(path, query, body)
        except Refused as error:
            return self._say(422, "Invalid", str(error))

    def _send_source(self, path):
        found = self.cluster.platform.get(path)
        if found is None or self.headers.get("authorization") != f"Bearer {found[0]}":
            return self._say(404, "NotFound", "there is no such job")
        return self._bytes(200, found[1], "application/x-tar")

    def _get(self, path, query, _):
        cluster = self.cluster
        if path.endswith("/log"):
            pod = cluster.pods.get(path.split("/")[-2])
            assert query["container"] == "task"
            return self._say(404, "NotFound", "no pod") if pod is None else self._bytes(200, pod.written(query), "text/plain")
        if path.startswith("/apis/metrics.k8s.io/"):
            return self._json(200, {"kind": "PodMetricsList", "items": cluster.metrics()})
        collection, _, name = path.rpartition("/")
        with cluster.lock:
            if (collection, name) in cluster.objects:
                return self._json(200, cluster.objects[collection, name])
            is_list = name in ("nodes", "pods", "jobs", "jobsets", "configmaps", "secrets", "networkpolicies")
            if not is_list:
                return self._say(404, "NotFound", f"{name} not found")
            found = (
                cluster.of("pods")
                if path == "/api/v1/pods"
                else [one for (at, _), one in cluster.objects.items() if at == path]
            )
            found = [one for one in found if selected(one, query.get("labelSelector", ""))]
            begin = int(query.get("continue") or 0)
            end = begin + min(int(query.get("limit", 500)), 3)  # pages are small, so that there are some
            following = {"continue": str(end)} if end < len(found) else {}
            return self._json(200, {"kind": "List", "metadata": following, "items": found[begin:end]})

    def _post(self, path, query, body):
        assert query["fieldValidation"] == "Strict"
        made = self.cluster.create(path, body)
        return self._say(409, "AlreadyExists", "it exists") if made is None else self._json(201, made)

    def _patch(self, path, query, body):
        assert self.headers["content-type"] == "application/merge-patch+json"
        collection, _, name = path.rpartition("/")
        code, found = self.cluster.patch(collection, name, body)
        return self._json(200, found) if found is not None else self._say(code, "NotFound" if code == 404 else "Conflict", "so")

    def _delete(self, path, query, body):
        collection, _, name = path.rpartition("/")
        found = self.cluster.delete(collection, name, body)
        return self._say(404, "NotFound", name) if found is None else self._json(200, found)

    def _say(self, code, reason, message):
        self._json(code, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code})

    def _json(self, code, body):
        with self.cluster.lock:
            text = json.dumps(body).encode()
        self._bytes(code, text, "application/json")

    def _bytes(self, code, content, kind):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
