"""How much of it all one tenant, and one agent, may have.

`Limits` holds every tenant to its `Quota`, and every agent: a `Bucket` for what comes per time (requests, bytes), a
`Gate` for calls at a time, with a bounded queue that serves waiting tenants by their weights, and counts of open
streams. What a call holds while it lasts is its `Permit`; what is left to a tenant is its `Standing`, which the
`RateLimit` headers tell. `SharedRates` asks Redis, so that several gateways give no more requests than one would.
"""
