"""The envelopes: how a call, an answer and a fault are wrapped in each binding."""
