"""The platform that a notebook or a job was given by its environment."""

import os
from typing import Final

from falaj.base.errors import Invalid
from falaj.client.http import ATTEMPTS, Client
from falaj.client.trust import trust

PATIENT: Final = 180  # about as many seconds: a job outlives a platform that is killed or upgraded, and nobody sits before it


def client_of_environment(token: str = "") -> Client:  # nosec B107 - that of the environment, by default
    """Of FALAJ_URL and FALAJ_TOKEN, unless another token is given; FALAJ_CA is a file with the authorities to trust."""
    url, token = os.environ.get("FALAJ_URL", ""), token or os.environ.get("FALAJ_TOKEN", "")
    if not url.startswith(("http://", "https://")) or not token:
        raise Invalid("Set FALAJ_URL and FALAJ_TOKEN (`falaj token create` makes one), or give a client.")
    authorities = os.environ.get("FALAJ_CA", "")
    attempts = PATIENT if os.environ.get("FALAJ_JOB") else ATTEMPTS
    return Client(url, token, verify=trust(authorities=authorities) if authorities else True, timeout=600.0, attempts=attempts)


def project_of_environment(given: str) -> str:
    """The project that was named, or that of FALAJ_PROJECT."""
    project = given or os.environ.get("FALAJ_PROJECT", "")
    if not project:
        raise Invalid("No project was named: give one with project=, or set FALAJ_PROJECT.")
    return project
