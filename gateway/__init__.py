"""A multi-tenant reverse-proxy gateway for the A2A (Agent2Agent) protocol."""

__version__ = "0.2.0"
"""The only place of the version: the package takes it from this file."""
