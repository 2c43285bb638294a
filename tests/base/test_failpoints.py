import os
import signal
import subprocess
import sys

CODE = "from falaj.base.failpoints import failpoint; failpoint('a.b'); print('alive')"


def run(armed):
    environment = {**os.environ, "FALAJ_FAILPOINT": armed}
    return subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)


def test_an_armed_failpoint_kills_the_process():
    assert run("a.b").returncode == -signal.SIGKILL


def test_a_failpoint_of_another_name_does_nothing():
    assert run("a.c").stdout == "alive\n"
