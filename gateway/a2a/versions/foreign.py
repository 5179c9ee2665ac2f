"""Names that mean something to another generation and nothing in the tree that they stand in.

Members that nobody knows pass from one generation to another, but never a name that gets its meaning only on the way:
a `taskId` in a message of 0.1 is nothing, and would be the task in the message of 1.0 that is made of it.
"""

from gateway.a2a.json import Tree


def foreign(*names: str) -> frozenset[str]:
    """The names, also as ProtoJSON accepts them: `taskId` and `task_id` are one to a 1.0 agent."""
    snake = ("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name) for name in names)
    return frozenset((*names, *snake))


def drop(tree: Tree, names: frozenset[str]) -> None:
    """Take out the members of these names."""
    if not names.isdisjoint(tree):
        for name in names.intersection(tree):
            del tree[name]
