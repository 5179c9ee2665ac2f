"""The configuration: the YAML file, read with places, checked in three passes, frozen.

A `Source` is one file, and its `Marks` are the places of its keys. `Config` is the validated configuration. A `Problem`
is a place, a fact and a remedy; `examine` finds all of them at once. `routing_table` and `reach` turn a `Config` into
the tables of routing, and `effective` has the settings that hold for an agent.
"""
