"""Whom a client believes over TLS: the authorities everybody knows, those of a file, and certificates the platform named."""

import ssl
from collections.abc import Iterable

import httpx

from falaj.base.errors import Invalid
from falaj.wire.pinning import pinned


def trust(*, authorities: str = "", certificates: Iterable[str] = ()) -> ssl.SSLContext:
    """`authorities` is a PEM file, `certificates` are PEM texts."""
    context = pinned(httpx.create_ssl_context(trust_env=False), certificates)
    if authorities:
        try:
            context.load_verify_locations(authorities)
        except OSError as error:
            raise Invalid(f"{authorities} cannot be read as certificates: {error.strerror or error}.") from None
    return context
