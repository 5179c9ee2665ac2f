"""`python -m gateway` is `a2a-gateway`."""

from gateway.cli import main

if __name__ == "__main__":
    main()
