"""Framing: how frames are delimited on a wire. It is added and removed at the edges; nothing between sees it."""
