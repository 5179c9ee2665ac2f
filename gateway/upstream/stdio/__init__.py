"""Agents that are child processes and speak JSON-RPC on their standard input and output (A2A issue 1074)."""
