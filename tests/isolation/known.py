"""What the gateway is known not to hold yet: each with a name, so that the machine goes on behind it.

True is tolerated. Whoever mends one sets it to False, or removes it with what asks for it.
"""

TWO_AGENTS_WITH_ONE_BACKEND_HAVE_TWO_LEDGERS = True
"""What an agent answers that is reached by two names is not known to be another's, where that was met by the other
name (`backing.py`: the scope is the name)."""
SESSIONS_OF_TASKS_NAMED_IN_0_1_ARE_THE_CLIENTS = True
"""Where `identity_headers` has a `session`, a client of 0.1 that goes on with a task and names another session than
that of the task has the agent told of its own word for it, without a mark, beside the right context in the message
(`a2a/envelope.py`: a translated call keeps the client's `context_id`, from which the header is written)."""
