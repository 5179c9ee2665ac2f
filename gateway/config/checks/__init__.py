"""Checks of meaning, by the part of the file that the operator edits."""
