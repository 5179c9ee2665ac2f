"""The grammar of names in the configuration: agents, tenants of callers, keys."""

import re

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""A whole name; `gateway.a2a.paths.RESERVED` has those that are taken."""
