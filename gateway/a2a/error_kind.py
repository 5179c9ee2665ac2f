"""The old place of the error table, for its importers."""

from gateway.a2a.fault import (
    BY_CODE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
)

__all__ = [
    "BY_CODE",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "TASK_NOT_CANCELABLE",
    "TASK_NOT_FOUND",
]
