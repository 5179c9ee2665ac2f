"""The old place of `tasks/ownership.py`."""

from gateway.tasks.ownership import Claims, claims_of

__all__ = ["Claims", "claims_of"]
