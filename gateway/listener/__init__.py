"""The listeners: HTTP and gRPC for clients, stdio for a host, and the admin port for operators."""
