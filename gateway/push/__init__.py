"""Push notifications: the policy for webhooks, callbacks for agents, queue and delivery.

A *subscription* is a client's webhook for a task; the agent gets a *callback* of the gateway instead. Notifications
that the agent posts there wait in the *queue* until the webhook has accepted them.
"""
