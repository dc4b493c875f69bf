"""Names and addresses of machines."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant by a host name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
