"""Addresses and certificates as text and files have them: their grammar, and TLS contexts made of them."""
