"""The generations of A2A: what each calls things, and how that is said in the newest one, the hub."""
