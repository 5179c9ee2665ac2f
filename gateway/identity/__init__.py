"""Who calls, proven from the head of a request alone.

An `Identity` turns the `Credentials` of a request into a `Principal` without waiting for anything: `ApiKeys` looks a
key up by its hash, `Tokens` verifies a JWT against a `KeySet`, which reads an issuer's public keys in the background.
A token whose turn has not come, or whose key is not here yet, raises `Pending`: `Identity.prove` waits for it. An
address whose credentials fail has `Failures`; what became of a token is a `Verdict`.
"""
