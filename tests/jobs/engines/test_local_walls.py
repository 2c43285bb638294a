"""Hostile jobs inside real walls: each reaches nothing that is not its own."""

import http.server
import io
import os
import socket
import tarfile
import threading
from pathlib import Path

import pytest

from falaj.jobs.engines.engine import Limits
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.running import walls
from falaj.jobs.running.orders import House
from falaj.jobs.running.relay import may_be_reached
from falaj.jobs.scheduler.values import Shape
from tests.jobs.engines.local import WAYS, ended, found_by, launched, logged, wait_for

SECRET = "a-word-nobody-may-read"


@pytest.fixture(params=WAYS)
def engine(request, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "ring.secret").write_text(SECRET)
    return LocalEngine(home / "jobs", Site(zone="here", hidden=(home,), **WAYS[request.param]))


@pytest.fixture
def platform():
    """A server that says who it was asked for."""

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            words = f"{self.path} at {self.headers['Host']} for {self.headers['Authorization']}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def do_POST(self):
            size = len(self.rfile.read(int(self.headers["Content-Length"])))
            words = f"{size} bytes".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_job_sees_neither_the_home_nor_keys_nor_other_attempts(engine, tmp_path):
    other = launched(engine, "sh", "-c", "echo mine > kept; echo ready; sleep 60", variables={"TOKEN": SECRET})
    wait_for(lambda: "ready" in logged(engine, other))
    code = f"""
import sys
for top in ({str(tmp_path)!r}, {str(Path.cwd() / "tests")!r}, {str(Path.home() / ".ssh")!r}, "/home", "/var/log", "/run"):
    if os.path.exists(top) and os.listdir(top):
        found.append(top)
for folder, folders, files in os.walk("/"):
    if folder.startswith(("/proc", "/sys", "/usr", "/lib", sys.prefix, sys.base_prefix)):
        folders.clear()
        continue
    for name in files:
        if name in ("ring.secret", "kept", "order.json", "shadow"):
            found.append(folder + "/" + name)
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("environ", "cmdline"):
            try:
                if {SECRET[::-1]!r}[::-1].encode() in open(f"/proc/{{pid}}/{{name}}", "rb").read():
                    found.append(pid)
            except OSError:
                pass
"""
    assert found_by(engine, code) == []
    engine.stop(other, 0)
    ended(engine, other)


def test_no_process_that_a_job_sees_names_a_place_of_the_host(engine, tmp_path):
    code = f"""
for pid in os.listdir("/proc"):
    for name in ("cmdline", "environ", "maps", "comm") if pid.isdigit() else ():
        try:
            said = open(f"/proc/{{pid}}/{{name}}", "rb").read()
        except OSError:
            continue
        if {str(tmp_path)[::-1]!r}[::-1].encode() in said or b"--ro-" + b"bind" in said:
            found.append(pid + "/" + name)
found.append(sorted(int(pid) for pid in os.listdir("/proc") if pid.isdigit())[0])
for name in ("environ", "mem", "maps", "fd/0"):
    try:
        open("/proc/1/" + name, "rb")
        found.append(name)
    except OSError:
        pass
"""
    assert found_by(engine, code) == [1]


def test_nothing_secret_is_ever_written_down(engine, tmp_path):
    attempt = launched(engine, "sh", "-c", "echo ready; sleep 60", variables={"TOKEN": SECRET})
    wait_for(lambda: "ready" in logged(engine, attempt))
    files = [path for path in (tmp_path / "home" / "jobs").rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    engine.stop(attempt, 0)
    ended(engine, attempt)


def test_a_job_is_nobody_else_and_can_become_nobody(engine):
    code = """
import subprocess
found.append(open("/proc/self/status").read().split("CapEff:")[1].split()[0])
for become in (os.setuid, os.setgid):
    try:
        become(0)
        found.append("became root")
    except (PermissionError, OSError):
        pass
try:
    os.kill(1, 9)  # the first process: not as root, and not from within
except PermissionError:
    pass
for place in ("/usr/x", "/etc/x", "/x", "/falaj/x", "/dev/x", os.__file__):
    try:
        open(place, "a")
        found.append(place)
    except OSError:
        pass
"""
    assert found_by(engine, code) == ["0000000000000000"]


def test_a_job_reaches_no_network(engine, platform):
    port = int(platform.rpartition(":")[2])
    with socket.create_server(("0.0.0.0", 0)) as server:
        code = f"""
import socket
for address in (("127.0.0.1", {port}), ("127.0.0.1", {server.getsockname()[1]}), ("1.1.1.1", 53), ("169.254.169.254", 80)):
    try:
        socket.create_connection(address, timeout=1)
        found.append(address)
    except OSError:
        pass
found += [name for name in os.environ if "proxy" in name.lower()]
"""
        assert found_by(engine, code) == []


def test_the_platform_is_reached_through_the_relay_alone(engine, platform):
    host, port = platform.removeprefix("http://").split(":")
    code = f"""
import http.client, urllib.error, urllib.request
base = os.environ["FALAJ_URL"]
assert os.environ["MLFLOW_TRACKING_URI"] == base + "/mlflow/fraud"
connection = http.client.HTTPConnection(base.removeprefix("http://"))
for path in ("/first", "/second"):
    connection.request("GET", path, headers={{"Authorization": os.environ["TOKEN"]}})
    found.append(connection.getresponse().read().decode())
connection.request("POST", "/", body=b"x" * 3000000)
found.append(connection.getresponse().read().decode())
connection.close()
proxy = urllib.request.build_opener(urllib.request.ProxyHandler({{"http": base, "https": base}}))
for url in ("http://{host}:{port}/", "https://{host}:{port}/", "http://example.com/"):
    try:
        proxy.open(url, timeout=5)
        found.append(url)
    except (urllib.error.URLError, OSError):
        pass
"""
    variables = {"TOKEN": "mine", "MLFLOW_TRACKING_URI": platform + "/mlflow/fraud"}
    found = found_by(engine, code, platform_url=platform, variables=variables)
    at = f"{host}:{port}"
    assert found == [f"/first at {at} for mine", f"/second at {at} for mine", "3000000 bytes"]


def test_a_declared_host_is_reached_and_no_other(engine, platform):
    port = int(platform.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import socket, urllib.error, urllib.request
found.append(urllib.request.urlopen("http://127.0.0.1:{port}/page", timeout=5).read().decode())
at = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
for target in ("127.0.0.1:{port}", "127.0.0.1:{server.getsockname()[1]}", "localhost:{port}", "169.254.169.254:80"):
    with socket.create_connection((at[0], int(at[1])), timeout=5) as asked:
        asked.sendall(f"CONNECT {{target}} HTTP/1.1\\r\\nHost: {{target}}\\r\\n\\r\\n".encode())
        found.append(int(asked.recv(1000).split()[1]))
"""
        # The loopback of the sandbox is not the host's: without NO_PROXY, its addresses would be asked of the relay.
        found = found_by(engine, code, hosts=(f"127.0.0.1:{port}",), variables={"NO_PROXY": "", "no_proxy": ""})
        assert found == [f"/page at 127.0.0.1:{port} for None", 200, 403, 403, 403]


def test_a_job_for_which_every_host_is_open_does_not_reach_this_one(engine, platform):
    port = int(platform.rpartition(":")[2])
    code = f"""
import socket
at = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
here = [host + ":{port}" for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0")]
for target in (*here, "169.254.169.254:80", "[fe80::1]:80"):
    with socket.create_connection((at[0], int(at[1])), timeout=5) as asked:
        asked.sendall(f"CONNECT {{target}} HTTP/1.1\\r\\n\\r\\n".encode())
        found.append(int(asked.recv(1000).split()[1]))
"""
    assert set(found_by(engine, code, hosts=("*",))) == {403}


@pytest.mark.parametrize("address", ["10.1.2.3", "8.8.8.8", "2606:4700::1111", "192.168.7.7"])
def test_addresses_of_others_may_be_meant(address):
    assert may_be_reached(address)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "fe80::1%eth0",
        ),
        *("ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00:ec2::254"),
    ],
)
def test_addresses_of_the_host_and_of_clouds_metadata_are_not(address):
    assert not may_be_reached(address)


def test_forks_are_bounded_and_none_escapes(engine):
    code = """
import time
children = []
try:
    for _ in range(500):
        pid = os.fork()
        if not pid:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        children.append(pid)
except OSError:
    found.append("bounded")
for pid in children:
    os.waitpid(pid, 0)
"""
    attempt = launched(
        engine, "python", "-c", f"import os\nfound = []\n{code}\nprint(found)", limits=Limits(seconds=60, processes=40)
    )
    end = ended(engine, attempt)
    # The kernel bounds everybody but root in a user namespace, who is ended for it instead.
    assert "bounded" in logged(engine, attempt) or (end.cause, end.words) == ("failed", "it ran more than 40 processes at once")


def test_memory_is_bounded_wherever_it_is_taken(engine):
    scripts = {
        "shared": "open('/dev/shm/x', 'wb').write(bytes(200 << 20))",
        "nameless": "import os\nfor name in ('x', 'y'):\n    os.write(os.memfd_create(name), bytes(100 << 20))",
        "many": "import os, time\n[os.fork() for _ in range(3)]\nx = b'x' * (30 << 20)\ntime.sleep(60)",
    }
    attempts = [
        launched(engine, "python", "-c", f"{script}\nimport time\ntime.sleep(60)", shape=Shape(cpu_milli=1000, memory_mib=128))
        for script in scripts.values()
    ]
    # What does not fit into /dev/shm fails there and then.
    assert [ended(engine, attempt).cause in ("memory", "failed") for attempt in attempts] == [True, True, True]
    assert ended(engine, attempts[2]).cause == "memory"


def test_memory_that_processes_share_counts_once_and_cached_files_do_not(engine):
    code = """
import mmap, os, sys, time
cached, mapped = 0, []
for folder, _, names in os.walk(sys.prefix):
    for name in names:
        if name.endswith(".so") and cached < 60 << 20:
            with open(os.path.join(folder, name), "rb") as file:
                mapped.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            cached += sum(1 + 0 * mapped[-1][at] for at in range(0, len(mapped[-1]), 4096)) * 4096
assert cached >= 60 << 20
held = b"x" * (60 << 20)
for _ in range(5):
    if not os.fork():
        time.sleep(1.2)
        os._exit(0)
time.sleep(1.2)
"""
    attempt = launched(engine, "python", "-c", code, shape=Shape(cpu_milli=1000, memory_mib=300))
    end = ended(engine, attempt)
    assert end.cause == "done"
    assert 60 <= end.used.memory_mib_peak < 100


def test_one_that_is_over_at_once_tells_what_its_largest_process_took(engine):
    attempt = launched(engine, "python", "-c", "x = b'x' * (80 << 20)")
    assert 80 <= ended(engine, attempt).used.memory_mib_peak < 110


def test_files_without_a_name_fill_the_disk_as_others_do(engine):
    code = """
import time, tempfile
kept = []
for _ in range(200):
    file = tempfile.TemporaryFile()
    file.write(bytes(4 << 20))
    file.flush()
    kept.append(file)
    time.sleep(0.02)
time.sleep(60)
"""
    limits = Limits(seconds=60, disk_mib=32)
    attempt = launched(engine, "python", "-c", code, limits=limits, shape=Shape(cpu_milli=1000, memory_mib=1024))
    assert ended(engine, attempt).cause == "disk"


def test_a_flood_is_read_slowly_and_does_not_stop_the_job_from_being_stopped(engine):
    attempt = launched(
        engine, "sh", "-c", "trap '' TERM; yes a long line to fill the log with", limits=Limits(seconds=60, log_mib=1)
    )
    wait_for(lambda: engine.log(attempt, 0, 1 << 22)[1] > 4 << 20)
    engine.stop(attempt, 0)
    assert ended(engine, attempt).cause == "stopped"
    assert len(engine.log(attempt, 0, 1 << 24)[0]) < 1 << 21


def tarred(*entries):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    return lambda: iter([whole.getvalue()])


def entry(name, kind=tarfile.REGTYPE, link=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, 0o7777
    return made


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../outside")],
        [entry("/job/output/absolute")],
        [entry("a/../../outside")],
        [entry("link", tarfile.SYMTYPE, "/etc")],
        [entry("link", tarfile.SYMTYPE, "../..")],
        [entry("folder", tarfile.SYMTYPE, "."), entry("folder/link", tarfile.SYMTYPE, "..")],
        [entry("hard", tarfile.LNKTYPE, "../../etc/passwd")],
        [entry("device", tarfile.CHRTYPE)],
        [entry("pipe", tarfile.FIFOTYPE)],
    ],
    ids=lambda entries: entries[-1].name,
)
def test_a_source_stays_within_its_folder(tmp_path, entries):
    engine = LocalEngine(tmp_path, Site(zone="here"))
    attempt = launched(engine, "sh", "-c", "echo ran", source=tarred(*entries))
    end = ended(engine, attempt)
    assert (end.cause, logged(engine, attempt)) == ("environment", "")
    assert entries[-1].name in end.words


def test_links_within_a_source_are_kept_and_special_rights_are_not(engine):
    source = tarred(entry("folder", tarfile.DIRTYPE), entry("folder/file"), entry("link", tarfile.SYMTYPE, "folder/file"))
    code = """
found += [oct(os.stat("folder/file").st_mode & 0o7777), os.readlink("link"), os.stat("folder/file").st_uid == os.getuid()]
"""
    assert found_by(engine, code, source=source) == ["0o755", "folder/file", True]


def test_a_home_within_the_interpreters_folders_is_covered(tmp_path):
    house = House("bwrap", "/opt/python/bin/python", ("/opt/python",), (), ("/opt/python/home", "/srv/home"), 0, False, False)
    inside = walls.Inside(tmp_path, (), (), (), 0, False)
    told = walls.command(house, inside, 9)
    assert told[told.index("/opt/python/home") - 1] == "--tmpfs"
    assert "/srv/home" not in told


def test_jobs_are_spread_over_cores(tmp_path):
    engine = LocalEngine(tmp_path, Site(zone="here"))
    if len(os.sched_getaffinity(0)) == 1:
        expected = [[min(os.sched_getaffinity(0))]] * 2
    else:
        first, second, *_ = sorted(os.sched_getaffinity(0))
        expected = [[first], [second]]
    script = "import os, time\nprint(sorted(os.sched_getaffinity(0)))\ntime.sleep(60)"
    attempts = [launched(engine, "python", "-c", script, shape=Shape(cpu_milli=1000, memory_mib=128)) for _ in range(2)]
    for attempt, cores in zip(attempts, expected, strict=True):
        assert wait_for(lambda attempt=attempt: "]" in logged(engine, attempt) and logged(engine, attempt)).strip() == str(
            cores
        )
        engine.stop(attempt, 0)
        ended(engine, attempt)
