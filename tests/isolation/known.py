"""What the gateway is known not to hold yet: each with a name, so that the machine goes on behind it.

True is tolerated. Whoever mends one sets it to False, or removes it with what asks for it.
"""

TWO_AGENTS_WITH_ONE_BACKEND_HAVE_TWO_LEDGERS = True
"""What an agent answers that is reached by two names is not known to be another's, where that was met by the other
name (`backend.py`: the scope is the name)."""
