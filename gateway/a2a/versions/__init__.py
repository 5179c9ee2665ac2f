"""The versions of A2A. To add one, write its module with a `FORM`, and register that in `a2a/translation.py`."""
