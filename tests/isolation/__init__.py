"""A machine that tries to break the isolation of tasks: whoever asks, whatever, wherever, however it is written.

One gateway stands on real sockets before agents that hand every task to whoever names it (`site.py`). Callers of
several tenants, and several of one tenant, send what Hypothesis draws: every operation, over JSON-RPC of 0.1, 0.3 and
1.0, HTTP+JSON of 0.3 and 1.0 and gRPC of 0.3 and 1.0, with ids of their own, of others and of nobody wherever an id may
stand (`ask.py`, `odd.py`). After every step a model that knows nothing of the gateway's code (`model.py`) holds it to:

    1  an agent heard only callers that may call it, and each id that it heard in a call is that caller's
    2  no context is one that an agent has heard from two owners
    3  no answer holds an id, a context, a mark of the gateway's or a text of another owner's
    4  the answer about another's id and the one about an id that never was are the same bytes
    5  what a caller asks of its own works, and contexts are called what the caller calls them

    python -m tests.isolation --steps 2000                what is drawn differs from run to run; figures are printed
    python -m tests.isolation --steps 2000 --seed 7       draws what it drew before
    python -m tests.isolation --state redis               the ledger in a Redis, or `sqlite` in a file
    python -m tests.isolation --state redis --gateways 2  several gateways share it
    python -m tests.isolation --push relay                webhooks are called by the gateway
    python -m tests.isolation --strict NAME               something that is tolerated (`known.py`) is not

Printed are the steps, the calls by operation and by what was spoken, which ids of others were tried where, how many
calls were refused, and the counter-examples; it ends with 1 where there is one. What it finds it makes smaller, which
may take minutes (`--as-found`), and prints as the calls of a few rules with what went over the wire. A part of it runs
with the other tests (`test_isolation.py`), which also see that the machine finds what is really broken.
"""
