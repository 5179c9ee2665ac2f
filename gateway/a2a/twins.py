"""The old names of what is in `ids.py`."""

from gateway.a2a import ids

has_twins = ids.has_duplicates
