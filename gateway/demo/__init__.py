"""The sample agents of `a2a-gateway demo`, made to be read and copied.

An *agent* is a card and one function: a message comes in, and the function answers or changes the task. The agent on
stdio needs nothing but Python; the *fleet* is four agents of its kind on one loopback port.
"""
