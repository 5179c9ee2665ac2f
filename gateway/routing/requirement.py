"""Scopes, roles and claims that a caller's token must have for one agent, beside what its tenant may call."""

from dataclasses import dataclass

from gateway.principal import Principal
from gateway.token_claim import claim_values, roles, scopes, typed


@dataclass(frozen=True, slots=True)
class Requirement:
    """All that is named must be there; who shows no token has no scope and no role.

    Attributes:
        claims: Paths of claims, each with the value that it must have or hold.
    """

    scopes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    claims: tuple[tuple[str, str | bool | int], ...] = ()

    def lacking(self, principal: Principal) -> tuple[str, ...]:
        """Return what the caller lacks, each in words for operators; empty where it lacks nothing."""
        claims = principal.claims
        held, played = scopes(claims), roles(claims)
        return (
            *(f"the scope {each!r}" for each in self.scopes if each not in held),
            *(f"the role {each!r}" for each in self.roles if each not in played),
            *(
                f"the claim {path}={value}"
                for path, value in self.claims
                if typed(value) not in claim_values(claims, path)
            ),
        )

    def is_met(self, principal: Principal) -> bool:
        """Return whether the caller lacks nothing."""
        return not self.lacking(principal)
