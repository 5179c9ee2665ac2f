"""The old names of what is in `ids.py`."""

from gateway.a2a import ids

Others = ids.NestedIds
Ambiguous = ids.Ambiguous
others = ids.nested_ids
of_messages = ids.nested_in
of_tree = ids.nested_in_tree
of_body = ids.nested_in_body
of_error = ids.nested_in_error
of_details = ids.nested_in_details
MOST_TASKS = ids.MOST_NESTED_TASKS
MOST_CONTEXTS = ids.MOST_NESTED_CONTEXTS
LONGEST_ERROR = ids.LONGEST_ERROR
