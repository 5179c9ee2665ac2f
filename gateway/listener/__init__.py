"""The outside: where bytes come in and go out. HTTP for clients, an admin port for operators."""
