"""The old place of `tasks/ownership.py`."""

from gateway.tasks.ownership import Tenure, kept

__all__ = ["Tenure", "kept"]
