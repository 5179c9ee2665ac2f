"""The old place of `agent_error.error_info`, for its importers."""

from gateway.a2a.agent_error import error_info as bare

__all__ = ["bare"]
