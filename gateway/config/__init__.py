"""The configuration: the YAML file, read with places, checked in three passes, frozen.

A `Source` is a file as it is written, and its `Marks` the place of every key; `Config` is what it means; a `Problem` is
a place, a fact and a remedy; `examine` finds all of them at once. `routing_table` and `reach` turn a `Config` into what
routing asks, and `effective` has the settings that hold for an agent.
"""
