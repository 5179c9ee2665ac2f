"""Who vouches for agents over gRPC, which wants the certificates themselves and knows no `ssl.SSLContext`."""

import re
import ssl
from pathlib import Path

_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")


def authorities(file: Path | None = None) -> bytes:
    """The certificates of a PEM file, or of the authorities that the system trusts; costs milliseconds.

    The system's are those of `connections.client_tls`. The environment has no say (safety K9), as it would if gRPC were
    left to look for them.

    Raises:
        OSError: the file is gone.
    """
    if file is not None:
        return file.read_bytes()
    system = ssl.get_default_verify_paths()
    bundle = Path(system.openssl_cafile)
    if bundle.is_file():
        return bundle.read_bytes()
    # As OpenSSL does: it finds them by the hash of their name.
    folder = Path(system.openssl_capath)
    found = sorted(each for each in folder.iterdir() if _HASHED.fullmatch(each.name)) if folder.is_dir() else []
    return b"\n".join(each.read_bytes() for each in found if each.is_file())
