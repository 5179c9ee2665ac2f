"""The old place of `document.Tree` and its reader, for its importers."""

from gateway.a2a.document import MAX_DEPTH, Tree, TreeInvalid, parse_tree

__all__ = ["MAX_DEPTH", "Tree", "TreeInvalid", "parse_tree"]
