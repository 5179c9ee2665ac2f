"""The agents' cards: fetched in the background, rewritten, and served.

A `CardSource` fetches the card of one backend from its `CardPlace`; a `CardReport` is the result of one attempt.
"""
