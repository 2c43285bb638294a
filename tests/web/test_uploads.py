"""Files that crawl in through the console take their share of the slots, and none of the pages' threads."""

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

from falaj.web.guards import csrf_token
from tests.web.conftest import Site

PUT = "/projects/default/blobs/-/blob.put?name=file"


def test_the_ninth_upload_of_one_session_is_refused_and_pages_go_on(site: Site) -> None:
    session = site.session()
    parts = urlsplit(site.url)
    lines = [f"POST {PUT} HTTP/1.1", f"host: {parts.netloc}", f"cookie: falaj-session={session}", "sec-fetch-site: same-origin"]
    lines += [f"x-csrf-token: {csrf_token(session)}", "content-length: 1000000", "", "some"]
    with ExitStack() as held, site.client(session) as client:
        for _ in range(8):
            connection = held.enter_context(socket.create_connection((parts.hostname, parts.port)))
            connection.sendall("\r\n".join(lines).encode())
        deadline = time.monotonic() + 20
        while len(list(site.platform.home.blobs.glob("incoming/*"))) < 8:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        refused = client.post(PUT, content=b"x", headers={"x-csrf-token": csrf_token(session)})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        api = client.post(
            "/v1/projects/default/blobs",
            content=b"x",
            headers={"authorization": f"Bearer {session}", "content-type": "application/octet-stream"},
        )
        assert api.status_code == 429, "one set of slots for both ways in"
        assert client.get("/projects").status_code == 200
