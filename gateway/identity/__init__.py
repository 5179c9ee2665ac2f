"""Authentication: the caller, proven from the head of a request alone.

An `Authenticator` turns the `Credentials` of a request into a `Principal`: `ApiKeys` looks a key up by its hash,
`TokenVerifier` verifies a JWT with the keys of a `KeySet`, which reads them in the background, and `Certificates` knows
the client certificates of mTLS. `verification` holds recent results and bounds the cost of unknown credentials.
`Entitlement` decides whether an earlier caller would still be accepted.
"""
