"""The process that one message leaves from, started by `delivering` with an order on its input; the outcome is its output.

Nothing here trusts the receiver, nor apprise: every address is looked at when a socket is connected to it, after names were
looked up, and no program can be started. The one home of apprise, which is imported behind that guard and nowhere else.
"""

import http.client
import json
import logging
import re
import resource
import signal
import ssl
import sys
from typing import Any, Final
from urllib.parse import unquote

from falaj.base.webhooks import target_of
from falaj.monitoring.sending.channels import PARAMETERS, SCHEMES, may_reach

_MEMORY: Final = 1 << 30
_GONE: Final = 410
_PROGRAMS: Final = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"})
_SOCKETS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_SEVERITIES: Final = {"critical": "failure", "warning": "warning"}


class Refused(Exception):
    """Trying again changes nothing."""


class Guard:
    """An audit hook. Addresses it turned down look like ones that do not answer: the next one of the name is tried."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self.refused = self.permitted = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROGRAMS:
            raise PermissionError("no program is started from here")
        if event in _SOCKETS and arguments[1] is not None:
            self._look_at(arguments[1])

    def _look_at(self, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) and address and isinstance(address[0], str) else ""
        if not may_reach(host, allow_private=self._allow_private):
            self.refused = True
            raise PermissionError("this lies inside a network")  # where a name leads is not for all who read of it
        self.permitted = True


def main() -> None:
    order = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.alarm(int(order["takes"]) + 1)  # also where nobody is left to end it
    guard = Guard(allow_private=order["allow_private"])
    sys.addaudithook(guard)
    try:
        problem = _DO[order["do"]](order)
        outcome = "failed" if problem else "taken"
    except Refused as error:
        outcome, problem = "refused", str(error)
    if outcome == "failed" and guard.refused and not guard.permitted:
        outcome, problem = "refused", "it leads inside a network, where alerts go only if the operator allows it"
    print(json.dumps({"outcome": outcome, "words": problem}))


def _post(order: dict[str, Any]) -> str:
    """Of the answer only the status is read; redirects are not followed."""
    target = target_of(order["url"])
    line: http.client.HTTPConnection
    if target.scheme == "https":
        line = http.client.HTTPSConnection(target.host, target.port, context=ssl.create_default_context())
    else:
        line = http.client.HTTPConnection(target.host, target.port)
    try:
        line.request("POST", target.path, body=order["body"].encode(), headers={"host": target.authority, **order["headers"]})
        status = line.getresponse().status
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        return f"{target.authority} did not take it: {type(error).__name__} {error}"
    if status == _GONE or 300 <= status < 400:
        raise Refused(f"{target.authority} answered {status}, which is not asked again")
    return "" if 200 <= status < 300 else f"{target.authority} answered {status}"


def _check(order: dict[str, Any]) -> str:
    _service(order["url"])
    return ""


def _notify(order: dict[str, Any]) -> str:
    import apprise  # behind the guard
    import requests

    said: list[str] = []
    heard = logging.Handler(logging.WARNING)
    heard.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("apprise").addHandler(heard)
    requests.Session.get_redirect_target = lambda *_: None  # type: ignore[method-assign]
    sender = apprise.Apprise()
    sender.add(_service(order["url"]))
    kind = _SEVERITIES.get(order["severity"], "info")
    if sender.notify(body=order["words"], title=order["title"], notify_type=kind, body_format="text"):
        return ""
    return _without_secrets(said[-1] if said else "the service did not take it", order["url"])


def _service(url: str) -> Any:
    """Read by apprise itself, so that what is looked at is what it will do."""
    import apprise
    from apprise.plugins import url_to_dict

    scheme = url.partition("://")[0]
    read = url_to_dict(url) or {}  # type: ignore[no-untyped-call]
    if read.get("schema") != scheme or scheme not in SCHEMES:
        raise Refused(f"apprise cannot read this as an address of {scheme}")
    strange = sorted(set(read["qsd"]) - PARAMETERS)
    if strange:
        raise Refused(f"the address of a channel cannot have {', '.join(strange)[:200]}: leave it out")
    asset: Any = apprise.AppriseAsset(storage_mode="memory")
    asset.app_id = asset.app_desc = "Falaj"
    asset.app_url = asset.image_url_mask = asset.image_url_logo = asset.image_path_mask = ""
    service = apprise.Apprise.instantiate(read, asset=asset)
    if service is None:
        raise Refused(
            f"apprise cannot read this as an address of {scheme}: https://appriseit.com/services/ tells how it is written"
        )
    return service


def _without_secrets(words: str, url: str) -> str:
    """What apprise says of a failure may repeat what it was given."""
    for part in re.split(r"[/:@?&=,]+", unquote(url)):
        if len(part) > 5 and part not in SCHEMES:
            words = words.replace(part, "***")
    return words


_DO: Final = {"check": _check, "notify": _notify, "post": _post}

if __name__ == "__main__":
    main()
