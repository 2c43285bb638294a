"""What goes wrong is told in one line, with an exit status that scripts can use, and never as a traceback."""

import os
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from falaj.app.home import write_private
from tests.cli.conftest import COMMAND, Falaj, Running


def test_where_no_platform_is_known_the_way_to_one_is_told(falaj: Falaj):
    line = falaj.fails("project", "list", status=2)
    assert "falaj up" in line
    assert "FALAJ_URL" in line


def test_a_platform_that_does_not_answer_is_a_failure(falaj: Falaj):
    assert "falaj up" in falaj.fails("status", FALAJ_URL="http://127.0.0.1:1")


class _Broken(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        said = b'{"detail": "Something went wrong on our side; the log has it under this request id."}'
        self.send_response(500)
        self.send_header("x-request-id", "0199a1b2c3d4e5f60718293a4b5c6d7e")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None: ...


def test_what_went_wrong_on_the_other_side_is_told_with_the_id_that_its_log_has(falaj: Falaj):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            line = falaj.fails("whoami", FALAJ_URL=f"http://127.0.0.1:{server.server_address[1]}", FALAJ_TOKEN="falaj_any")
        finally:
            server.shutdown()
            thread.join()
    assert "(request 0199a1b2c3d4e5f60718293a4b5c6d7e)" in line


def test_an_address_that_is_none_is_refused(falaj: Falaj):
    assert "https://" in falaj.fails("whoami", status=2, FALAJ_URL="ftp://example.org")


def test_a_token_is_never_sent_to_an_address_it_was_not_stored_with(falaj: Falaj, platform: Running):
    falaj.home.mkdir()
    write_private(falaj.home / "credentials.json", {"url": "http://127.0.0.1:1", "token": "falaj_of-another-platform"})
    line = falaj.fails("whoami", FALAJ_URL=platform.url)
    assert "falaj login" in line


def test_who_is_not_signed_in_is_told_once_how_to(platform: Running, falaj: Falaj):
    wrong = platform.fails("whoami", FALAJ_TOKEN="falaj_" + "x" * 43)
    for line in (wrong, falaj.fails("whoami", FALAJ_URL=platform.url)):
        assert line.endswith(". Sign in with `falaj login`, or set FALAJ_TOKEN.\n")
        assert line.lower().count("sign in") == 1
    used = falaj.fails("login", "--code", "used", FALAJ_URL=platform.url)
    assert "falaj console" in used
    assert "falaj login" not in used


def test_policies_are_said_to_explain_a_refusal_only_where_they_decided_it(platform: Running):
    narrow = platform.json("token", "create", "narrow", "--scope", "read", "--days", "1")["token"]
    assert "(rule token.scope; `falaj policy explain`" in platform.fails(
        "project", "delete", "default", "--yes", FALAJ_TOKEN=narrow
    )
    made = platform.fails("token", "create", "long", "--days", "3660")
    assert made.endswith("(rule token.life)\n")


def test_a_name_that_is_none_is_told_before_anything_is_sent(platform: Running):
    assert "small letters" in platform.fails("project", "show", "../x", status=2)
    assert "small letters" in platform.fails("project", "create", "Über", "--zone", "home", status=2)
    assert "32 hexadecimal digits" in platform.fails("blob", "show", "default", "nope", status=2)


def test_what_does_not_exist_is_a_failure(platform: Running):
    assert "nope" in platform.fails("project", "show", "nope")


def test_what_cannot_be_undone_is_asked_first(platform: Running):
    assert "--yes" in platform.fails("project", "delete", "default", status=2)


def test_a_file_that_is_missing_is_named(platform: Running):
    assert "no-such-file" in platform.fails("blob", "put", "default", "no-such-file")


def test_an_unexpected_error_tells_of_the_support_bundle_and_debugging_shows_where(falaj: Falaj):
    """A server that says its answer is compressed, and it is not, is not expected."""
    program = (
        "import http.server as h\n"
        "class A(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.send_header('content-encoding', 'gzip')\n"
        "        self.end_headers(); self.wfile.write(b'nonsense')\n"
        "    def log_message(self, *a): pass\n"
        "s = h.HTTPServer(('127.0.0.1', 0), A); print(s.server_port, flush=True); s.serve_forever()"
    )
    with subprocess.Popen([COMMAND[0], "-c", program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        try:
            assert "falaj support-bundle" in falaj.fails("status", FALAJ_URL=url)
            shown = falaj.raw("status", FALAJ_URL=url, FALAJ_DEBUG="1")
        finally:
            server.terminate()
    assert b"Traceback" in shown.stderr


def test_a_reader_that_goes_away_ends_it_quietly(platform: Running):
    listing = subprocess.Popen(
        [*COMMAND, "policy", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=platform.environment
    )
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.stderr is not None
    said = listing.stderr.read()
    listing.stderr.close()
    assert listing.wait(30) == 1
    assert said == b""


def test_ctrl_c_ends_it_quietly(platform: Running):
    following = platform.start("audit", "follow")
    assert following.stdout is not None
    following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=30)
    assert (following.returncode, said) == (130, "")


def test_colours_stay_out_of_pipes_and_of_no_color(platform: Running):
    assert "\x1b" not in platform("project", "list")
    assert "\x1b" not in _on_a_terminal(platform, "policy", "explain", "blob.put", "--project", "default", NO_COLOR="1")
    assert "\x1b" in _on_a_terminal(platform, "policy", "explain", "blob.put", "--project", "default", TERM="xterm")


def test_what_others_wrote_cannot_steer_the_terminal(platform: Running):
    platform("project", "create", "steering", "--zone", "home", "--description", "red \x1b[31m and \x07 [bold]markup[/bold]")
    shown = _on_a_terminal(platform, "project", "show", "steering", NO_COLOR="1")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]markup[/bold]" in shown


def _on_a_terminal(platform: Running, *arguments: str, **environment: str) -> str:
    """What a person would see: the command runs on a pseudo-terminal."""
    master, slave = os.openpty()
    process = subprocess.Popen([*COMMAND, *arguments], stdout=slave, stderr=slave, env=platform.environment | environment)
    os.close(slave)
    seen = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end was closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(master)
    assert process.wait(30) == 0, seen
    return seen.decode()
