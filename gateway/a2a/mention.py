"""The old names of what is in `ids.py`."""

from gateway.a2a import ids

NONE = ids.NO_IDS
Mentions = ids.ReferencedIds
Webhook = ids.Webhook
mentions = ids.referenced_ids
parameters = ids.parameters
gather = ids.gather
context_places = ids.context_places
task_places = ids.task_places
MOST_TASKS = ids.MOST_REFERENCED_TASKS
