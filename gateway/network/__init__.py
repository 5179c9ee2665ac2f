"""Connections, whichever side begins them: the grammar of addresses, TLS contexts of certificates, deadlines."""
