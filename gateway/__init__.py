"""A multi-tenant reverse-proxy gateway for the A2A (Agent2Agent) protocol."""

__version__ = "0.2.0"
"""The version: here alone, so that a clone knows it without being installed; the package takes it from this file."""
