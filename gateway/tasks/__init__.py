"""Whose task it is, and what each side calls it."""
