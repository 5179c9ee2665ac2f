"""What exists behind the gateway: the agents' cards, kept fresh in the background.

A `CardSource` is where one backend's card comes from; its `CardPlace` says where that is; a `CardReport` is how one
attempt to read it ended.
"""
