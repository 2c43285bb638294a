"""What a training hears from its job and tells it."""

import json
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from falaj.training.checkpoints.preemption import Preemption
from falaj.training.checkpoints.reporting import NoReport, report_from_environment


def ran(program: str) -> "subprocess.CompletedProcess[str]":
    start = "import os, signal\nfrom falaj.training.checkpoints.preemption import Preemption\n"
    return subprocess.run([sys.executable, "-c", start + program], capture_output=True, text=True, check=False)


def test_the_first_signal_is_heard_and_the_handler_before_it_comes_back():
    done = ran("""
signal.signal(signal.SIGTERM, before := lambda *_: None)
with Preemption() as preemption:
    print(preemption.asked)
    os.kill(os.getpid(), signal.SIGTERM)
    print(preemption.asked, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
print(signal.getsignal(signal.SIGTERM) is before)
""")
    assert (done.returncode, done.stdout.split()) == (0, ["False", "True", "True", "True"])


def test_the_second_signal_ends_the_program():
    done = ran("""
with Preemption() as preemption:
    os.kill(os.getpid(), signal.SIGTERM)
    print(preemption.asked, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here")
""")
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "True\n")


def test_in_another_thread_it_says_that_it_hears_no_signals_and_goes_on_without(caplog):
    asked, before = [], signal.getsignal(signal.SIGTERM)

    def work():
        with Preemption() as preemption:
            asked.append(preemption.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert asked == [False]
    assert signal.getsignal(signal.SIGTERM) == before
    assert [record.message for record in caplog.records if "main thread" in record.message]


@pytest.fixture
def platform():
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append((self.path, self.headers["Authorization"], body))
            self.send_response(200 if len(heard) == 1 else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()
        thread.join()


def test_a_job_tells_its_platform_and_a_platform_that_fails_hurts_nobody(platform):
    url, heard = platform
    given = {"FALAJ_URL": url, "FALAJ_PROJECT": "fraud", "FALAJ_JOB": "0123", "FALAJ_TOKEN": "secret"}
    report = report_from_environment(given)
    report.checkpointed(0.4)
    report.checkpointed(7)
    place = "/v1/projects/fraud/jobs/0123/report"
    assert heard == [
        (place, "Bearer secret", {"checkpoint": True, "progress": 0.4}),
        (place, "Bearer secret", {"checkpoint": True, "progress": 1.0}),
    ]


def test_a_training_that_is_no_job_tells_nobody():
    assert isinstance(report_from_environment({"FALAJ_URL": "http://127.0.0.1:1"}), NoReport)
    assert isinstance(report_from_environment({}), NoReport)
