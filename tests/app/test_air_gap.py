"""Nobody is called: the platform and the demo work where there is no network, and no page names another host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.mortal import environment_of

ROOT = Path(__file__).parents[2]
WEB = ROOT / "falaj" / "web"
# In every Python process: who is asked for, by name or by address. The namespace below stops what is not Python as well.
WATCH = """
import os, sys
def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in (None, "", "localhost", "127.0.0.1", "::1"):
        with open(os.environ["CALLED"], "a") as called:
            print(event, host, file=called)
sys.addaudithook(watch)
"""
# A network namespace of one's own has no interface but the loopback, and that one is down at first.
ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket() as anything:
    fcntl.ioctl(anything, 0x8914, struct.pack("16sH14x", b"lo", 0x1))
assert [name for _, name in socket.if_nameindex()] == ["lo"]
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
DEMO = """
import sys, httpx
from falaj.cli.demo import showing
from falaj.cli.main import main
play = showing.play
def with_a_page(stage, part, steps):
    shown = play(stage, part, steps)
    print("page", httpx.get(stage.url + "/sign-in", trust_env=False).status_code)
    return shown
showing.play = with_a_page
sys.argv = ["falaj", "demo", "residency", "--exit"]
sys.exit(main())
"""
CALLING = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=0.2)"
ELSEWHERE = re.compile(r"""(?:\b[a-z]+:)?//[\w-]+(?:\.[\w-]+)+|@import|url\(\s*['"]?(?!data:|#)""")
NAMESPACES = {"http://www.w3.org"}  # names of vocabularies, which no browser fetches


def without_network(tmp_path: Path, code: str) -> tuple["subprocess.CompletedProcess[str]", list[str]]:
    """Run it with nothing but loopback, where we may make such a place, and watched in any case; and whom it called."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    called = tmp_path / "called"
    called.touch()
    environment = environment_of(PYTHONPATH=f"{tmp_path / 'watch'}:{ROOT}", CALLED=str(called))
    command = [*namespace(), "-c", code]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    return done, called.read_text().splitlines()


def namespace() -> list[str]:
    """Root makes one at once, others where the kernel lets them; elsewhere watching must do."""
    for options in (["--net"], ["--net", "--map-root-user"]):
        if subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0:
            return ["unshare", *options, sys.executable, "-c", ALONE]
    return [sys.executable]


def test_the_platform_and_the_demo_work_without_a_network_and_call_nobody(tmp_path: Path):
    done, called = without_network(tmp_path, DEMO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the disk in abu-dhabi holds ciphertext" in done.stdout
    assert "page 200" in done.stdout
    assert called == []


def test_a_call_to_another_machine_would_be_seen(tmp_path: Path):
    done, called = without_network(tmp_path, CALLING)
    assert done.returncode == 1
    assert called[-1] == "socket.connect 192.0.2.1"


@pytest.mark.parametrize("file", sorted((*WEB.glob("templates/*"), *WEB.glob("static/*"))), ids=lambda file: file.name)
def test_no_page_script_or_style_names_another_host(file: Path):
    text = file.read_text()
    if file.name.endswith(".min.js"):
        # Licences are named in comments; `path://` begins the outline of a symbol.
        text = re.sub(r"/\*.*?\*/|\bpath://", "", text, flags=re.DOTALL)
    if not file.name.endswith(".LICENSE.txt"):
        assert set(ELSEWHERE.findall(text)) <= NAMESPACES


@pytest.mark.parametrize(
    "text",
    ['<script src="https://cdn.example.com/x.js">', '<img src="//cdn.example.com/x.png">', "url('/fonts/x')", "@import 'x'"],
)
def test_one_that_does_is_found(text: str):
    assert ELSEWHERE.search(text)
