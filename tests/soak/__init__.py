"""A soak: one gateway process under steady load, with clients that leave and a file that keeps changing.

Two tenants call the same paths, each with words of its own, over JSON-RPC and HTTP+JSON, at 60 % of the rate that the
same clients have at full load; one call in a hundred is broken off. Every few seconds the file is changed, and every
other time it is broken. What is asked:

    1  each reply is the one to its call: id, words, tenant; nothing fails but what was broken off
    2  memory does not grow: its slope by least squares, where ten minutes count; in less, what it adds
    3  descriptors do not grow, and once all is quiet there are no more than before
    4  nothing is left open

    python -m tests.soak                four minutes, the last two of which count
    python -m tests.soak --minutes 20
"""
