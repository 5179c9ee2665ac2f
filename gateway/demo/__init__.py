"""The sample agents of `a2a-gateway demo`, made to be read and copied.

An *agent* is a name, a card and one async generator: a message comes in, `Step`s come out. A `Task` is what the steps
have made of it so far, with the queues of those who watch. The *fleet* is four such agents on one loopback port.
Beside it stands an agent on stdio, in one file of its own that needs nothing of this package.
"""
