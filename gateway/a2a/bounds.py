"""The old place of `document.BodyBounds`, for its importers."""

from gateway.a2a.document import BOUNDS, SLICE, BodyBounds, refuse_crowd

__all__ = ["BOUNDS", "SLICE", "BodyBounds", "refuse_crowd"]
