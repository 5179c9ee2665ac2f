"""A multi-tenant reverse-proxy gateway for the A2A (Agent2Agent) protocol."""
