"""The steps of a request, in the order of `pipeline.py`."""
