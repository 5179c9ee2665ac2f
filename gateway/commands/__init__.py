"""The commands of `a2a-gateway`, one a file; `gateway.cli` parses the arguments."""
