"""Ownership of tasks and contexts, and the names that each side has for them."""
