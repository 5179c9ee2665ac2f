"""Calls the webhooks of clients: which ones may be called, callbacks for agents in their place, delivery.

A *subscription* is a client's webhook for a task; the agent gets a *callback* of the gateway's own instead.
Notifications that the agent posts there wait in the *queue* until the webhook has taken them.
"""
