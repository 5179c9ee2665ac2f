"""What was asked for: the YAML file, read with places, checked in one pass, frozen.

A `Document` is the file as written, with the place of every key; `Config` is what it means; a `Problem` is a place, a
fact and a remedy. `check` finds the problems that one value alone does not show; `routes` makes the routing table.
"""
