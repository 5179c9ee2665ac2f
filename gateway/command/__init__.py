"""What the command line does, one command or one step of it a file; `gateway.cli` reads the options and calls these."""
