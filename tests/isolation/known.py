"""Known gaps of the gateway: each with a name, so that the machine goes on behind it.

True means tolerated. A fix sets the constant to False, or removes it with the code that reads it.
"""

TWO_AGENTS_WITH_ONE_BACKEND_HAVE_TWO_LEDGERS = True
"""An agent reached by two names has two ledgers (`backend.py`: the scope is the name): ids met by one name are unknown
by the other."""
