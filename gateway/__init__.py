"""A multi-tenant reverse-proxy gateway for the A2A (Agent2Agent) protocol."""

__version__ = "0.1.0"
"""The version of this package: here, so that a clone and an image know it without being installed."""
