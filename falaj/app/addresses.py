"""What an address to listen on means: this machine alone, or all of its addresses."""

import ipaddress


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_everywhere(host: str) -> bool:
    """An address that means all of this machine's: one listens there, and no client asks for it by that name."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
