"""Framing: how frames are told apart on a wire. Put on and taken off at the edges; nothing between sees it."""
