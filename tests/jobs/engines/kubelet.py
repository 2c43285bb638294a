"""The part of the cluster's double that runs pods: real processes behind bubblewrap, with a kubelet's manners."""

import base64
import datetime
import re
import signal
import subprocess
import sys
import threading
import time

import psutil

MIB = 1 << 20


def now_text():
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expanded(text, variables):
    """As Kubernetes does it: `$(NAME)` is a variable's value where there is one, and `$$` is a dollar."""

    def put(match):
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", put, text)


class RunningPod:
    def __init__(self, cluster, path, pod):
        self._cluster, self._path, self._pod, self._name = cluster, path, pod, pod["metadata"]["name"]
        self._folder = cluster.folder / self._name
        self._folder.mkdir()
        self._lines = []  # when, and what; the last one may not have ended
        self._writing = threading.Lock()
        self._kill_at = None
        self._is_deleted = False
        self._process = None
        self._statuses = {"containerStatuses": [], "initContainerStatuses": []}
        self._sampled = (time.monotonic(), 0.0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self):
        self._thread.join(20)

    def end(self, until):
        """Somebody deletes it."""
        self._is_deleted = True
        self._kill_at = until if self._kill_at is None else min(self._kill_at, until)

    def kill(self):
        self.end(0)

    def written(self, query):
        since = query.get("sinceTime", "")[:19]
        with self._writing:
            return b"".join(when.encode() + b" " + bytes(text) for when, text in self._lines if when[:19] >= since)

    def measured(self, name):
        if not (processes := self._inside()):
            return None
        cpu = memory = 0.0
        for process in processes:
            try:
                cpu += sum(process.cpu_times()[:4])  # of children that ended, too
                memory += process.memory_info().rss
            except psutil.Error:
                continue
        (then, before), now = self._sampled, time.monotonic()
        self._sampled = (now, max(cpu, before))
        rate = max(0.0, cpu - before) / max(1e-6, now - then)
        usage = {"cpu": f"{int(rate * 1e9)}n", "memory": f"{int(memory) // 1024}Ki"}
        labels = self._pod["metadata"]["labels"]
        return {"metadata": {"name": name, "labels": labels}, "containers": [{"name": "task", "usage": usage}]}

    # Its life

    def _run(self):
        try:
            self._tell("Pending", startTime=now_text())
            phase, more = self._live()
        except Exception as error:  # noqa: BLE001 - the test that waits for it is told
            phase, more = "Failed", {"reason": "Broken", "message": repr(error)}
        with self._cluster.lock:
            if self._is_deleted:
                self._cluster.objects.pop((self._path, self._name), None)
                self._cluster.pods.pop(self._name, None)
            else:
                self._tell(phase, **more)

    def _live(self):
        spec = self._pod["spec"]
        for container in spec.get("initContainers", ()):
            code = self._contain(container, self._secrets(container))
            end = {"terminated": {"exitCode": code, "message": self._last_words(), "reason": "Error" if code else "Completed"}}
            self._statuses["initContainerStatuses"] = [{"name": container["name"], "image": container["image"], "state": end}]
            if code or self._is_deleted:
                return "Failed", {}
            self._lines.clear()
        container = spec["containers"][0]
        variables = self._secrets(container)
        if variables is None:
            return "Failed", {}
        started = now_text()
        self._statuses["containerStatuses"] = [self._status({"running": {"startedAt": started}})]
        self._tell("Running")
        code, more = self._contain(container, variables, watch=True), {}
        reason = "Error" if code else "Completed"
        if isinstance(code, tuple):
            code, reason, more = code
        end = {
            "exitCode": code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": now_text(),
            "message": self._last_words(),
        }
        if reason == "StartError":
            end["message"] = f'exec: "{container["command"][0]}": executable file not found in $PATH'
        self._statuses["containerStatuses"] = [self._status({"terminated": end})]
        return "Failed" if code or more else "Succeeded", more

    def _status(self, state):
        return {"name": "task", "image": self._pod["spec"]["containers"][0]["image"], "state": state}

    def _tell(self, phase, **more):
        with self._cluster.lock:
            found = self._cluster.objects.get((self._path, self._name))
            if found is not None:
                found["status"] = {**found["status"], **more, "phase": phase, **self._statuses}
                self._cluster._store(self._path, found)

    def _secrets(self, container):
        """Variables, once the Secret that has them is there; None where the pod is deleted before."""
        namespace = self._path.rsplit("/", 1)[0]
        annotations = self._pod["metadata"]["annotations"]
        variables = {}
        for one in container["env"]:
            given = one.get("valueFrom")
            if given is None:
                variables[one["name"]] = expanded(one["value"], variables)
            elif "fieldRef" in given:
                variables[one["name"]] = annotations[re.search(r"\['(.*)'\]", given["fieldRef"]["fieldPath"])[1]]
            else:
                wanted = given["secretKeyRef"]
                while (found := self._cluster.objects.get((f"{namespace}/secrets", wanted["name"]))) is None:
                    if self._is_deleted:
                        return None
                    time.sleep(0.01)
                variables[one["name"]] = base64.b64decode(found["data"][wanted["key"]]).decode()
        return variables

    # Its processes

    def _contain(self, container, variables, watch=False):
        if variables is None:
            return 1
        command = [expanded(part, variables) for part in container["command"]]
        hosts = self._folder / "hosts"
        aliases = [f"{one['ip']} {' '.join(one['hostnames'])}" for one in self._pod["spec"].get("hostAliases", ())]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *aliases, ""]))
        walls = ["bwrap", "--unshare-pid", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
        for name in ("bin", "sbin", "lib", "lib64"):
            walls += ["--symlink", f"usr/{name}", f"/{name}"]
        walls += ["--ro-bind", sys.base_prefix, sys.base_prefix, "--ro-bind", str(hosts), "/etc/hosts"]
        for mount in container["volumeMounts"]:
            place = self._folder / mount["name"]
            place.mkdir(exist_ok=True)
            walls += ["--bind", str(place), mount["mountPath"]]
        path = f"{sys.base_prefix}/bin:/usr/bin:/bin"
        found = subprocess.run(["sh", "-c", f'PATH={path}; command -v -- "$0"', command[0]], capture_output=True, check=False)
        if found.returncode:
            return 128, "StartError", {}
        walls += ["--chdir", container["workingDir"], "--clearenv", "--setenv", "PATH", path]
        for key, text in variables.items():
            walls += ["--setenv", key, text]
        with subprocess.Popen([*walls, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            self._process = process
            reader = threading.Thread(target=self._keep, args=(process.stdout,), daemon=True)
            reader.start()
            outcome = self._watch(process, container if watch else None)
            reader.join(5)
        return outcome

    def _keep(self, pipe):
        while piece := pipe.read1(1 << 16):
            when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.time_ns() % 10**9:09d}Z"
            with self._writing:
                for line in piece.splitlines(keepends=True):
                    if self._lines and not self._lines[-1][1].endswith(b"\n"):
                        self._lines[-1][1].extend(line)
                    else:
                        self._lines.append((when, bytearray(line)))

    def _watch(self, process, container):
        """Its code; or its code, the reason for it and what its pod says."""
        began, why, told = time.monotonic(), None, False
        grace = self._pod["spec"]["terminationGracePeriodSeconds"]
        while (code := process.poll()) is None:
            time.sleep(0.02)
            spec = (self._cluster.objects.get((self._path, self._name)) or self._pod)["spec"]
            deadline = spec.get("activeDeadlineSeconds")
            if why is None and deadline is not None and time.monotonic() - began > deadline:
                why, self._kill_at = (
                    {"reason": "DeadlineExceeded", "message": "Pod was active longer"},
                    time.monotonic() + grace,
                )
            if container is not None and why is None and (outcome := self._over_limits(container)):
                self._kill(process)
                return outcome
            if self._kill_at is not None and not told:
                told = True
                self._signal(signal.SIGTERM)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill(process)
        code = code if code >= 0 else 128 - code
        return (code, "Error" if code else "Completed", why) if why else code

    def _over_limits(self, container):
        limits = container["resources"]["limits"]
        memory = 0
        for process in self._inside():
            try:
                memory += process.memory_info().rss
            except psutil.Error:
                continue
        if memory > int(limits["memory"].removesuffix("Mi")) * MIB:
            return 137, "OOMKilled", {}
        disk = sum(
            file.stat().st_size
            for place in ("work", "output", "scratch")
            for file in (self._folder / place).rglob("*")
            if file.is_file()
        )
        if disk > int(limits["ephemeral-storage"].removesuffix("Mi")) * MIB:
            why = f"Pod ephemeral local storage usage exceeds the total limit of containers {limits['ephemeral-storage']}. "
            return 137, "Error", {"reason": "Evicted", "message": why}
        return None

    def _inside(self):
        """Its processes without bubblewrap's own two."""
        if self._process is None or self._process.poll() is not None:
            return []
        try:
            found = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []
        return found[1:]

    def _signal(self, number):
        """The command is told; what it started is its own affair."""
        for process in self._inside()[:1]:
            try:
                process.send_signal(number)
            except psutil.Error:
                continue

    def _kill(self, process):
        for inner in self._inside():
            try:
                inner.kill()
            except psutil.Error:
                continue
        process.kill()
        process.wait()

    def _last_words(self):
        with self._writing:
            return b"".join(bytes(text) for _, text in self._lines[-80:])[-2048:].decode(errors="replace")
