"""Helpers of all connections: the grammar of addresses, TLS contexts, deadlines, batched writes."""
