"""Rate and concurrency limits of tenants and agents.

`QuotaEnforcer` applies a `Quota` to each tenant and agent. A `Bucket` limits rates (requests, bytes), a
`ConcurrencyLimiter` limits concurrent calls, with a bounded queue that is fair between tenants. A `Permit` is held by
one call. A `RateLimitState` is the state of a tenant's rate limit, for the `RateLimit` headers. `SharedRates` counts
requests of several gateways in Redis.
"""
