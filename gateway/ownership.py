"""The old place of `tasks/ownership.py`: its methods as functions."""

from gateway.tasks.ownership import Claims

own, count, is_others, has_begun, home_of = Claims.own, Claims.count, Claims.is_others, Claims.has_begun, Claims.home_of
tells_of_others, refuse_others = Claims.names_others, Claims.refuse_others
