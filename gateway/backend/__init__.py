"""Backends: the replicas, transport, card and limits of each agent, built from the configuration."""
