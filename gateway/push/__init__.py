"""Who calls the webhooks of clients: what may be called, what the agent is given instead, and what is on its way.

A *webhook* is the URL that a client names for a task; a *hook* is what the gateway keeps of it, and the *callback* the
URL of its own that the agent gets instead. What an agent posts there is a *notification*; until its webhook has taken
it, it lies in the *outbox*.
"""
