"""Certificates that are believed as they are, beside those of the authorities everybody knows."""

import ssl
from collections.abc import Iterable


def pinned(context: ssl.SSLContext, certificates: Iterable[str]) -> ssl.SSLContext:
    """The context, which from now on takes each of these (PEM) whoever signed it; for the names it has, while it is valid."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # one that an unknown authority signed is an end of its own
    for certificate in certificates:
        context.load_verify_locations(cadata=certificate)
    return context
