"""Which authorities vouch for servers that are not agents: issuers of tokens, and webhooks."""

from gateway.config.part import Part

SYSTEM = "system"
"""The authorities that the system trusts."""


class PeerTls(Part):
    """Who vouches for a server that is reached by https."""

    ca: str = SYSTEM
    """PEM file of the authorities that are trusted instead of the system's, relative to this file; or `system`."""
