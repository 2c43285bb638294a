"""What an endpoint's callbacks are signed with: derived for each endpoint from a key that is kept for this alone.

Nothing is stored for an endpoint; rotating the signing key `callbacks` gives all of them new secrets.
"""

import base64
from collections.abc import Callable
from typing import Final

from falaj.database.work import UnitOfWork
from falaj.keys.sealing import derive
from falaj.keys.signing import SigningKeys

PURPOSE: Final = "callbacks"
PREFIX: Final = "whsec_"  # as "Standard Webhooks" writes a secret


def maker(keys: SigningKeys, work: UnitOfWork) -> Callable[[str], str]:
    """Secrets by the endpoint's id. An Ed25519 signature is the same each time and known to nobody else: it is never given
    away, only what is derived from it."""
    signer = keys.current(work, PURPOSE)

    def secret(endpoint: str) -> str:
        made = derive(signer.sign(b"the callback secret of " + endpoint.encode()), b"falaj callbacks")
        return PREFIX + base64.b64encode(made).decode()

    return secret
