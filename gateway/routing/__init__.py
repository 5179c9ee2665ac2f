"""Where a request goes, pure and immutable.

An `Endpoint` is a host and a path; its `Rule`s are the matches of the file found there; a `Route` is the agent (and
backend) that answers; a `Table` holds them all and resolves a `RoutingInput` to a `Verdict`.
"""
