"""The caller that shows no credential, where the configuration admits it."""

from types import MappingProxyType

from gateway.principal import ANONYMOUS_TENANT, Principal

ANONYMOUS = Principal(tenant=ANONYMOUS_TENANT, claims=MappingProxyType({}))
"""One value for every caller without a credential: they are all the same principal."""
