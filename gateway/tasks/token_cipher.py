"""Encryption of tokens that clients return to the gateway, and names that only the gateway can make.

A page token of a shared agent holds the id of the next task, which may be another tenant's. So a token is encrypted,
and bound to its owner and its use. A *name* is always the same for the same words, and only the gateway can make or
read it.
"""

import os
from base64 import b32encode, urlsafe_b64decode, urlsafe_b64encode
from hmac import digest

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SECRET = 32
"""Bytes of the secret."""
LONGEST = 4096
"""The most characters of a token, all of them ASCII."""
NAME = 26
"""Characters of a name: 130 bits, so that no two are equal by chance."""

# NIST SP 800-38D: 96 random bits suffice for 2^32 tokens under one key, with a chance of 2^-33 that two are equal.
_NONCE = 12
_TAG = 16


class TokenCipher:
    """Encrypts tokens, decrypts them, and makes names, under one secret with a key for each purpose.

    Gateways that read each other's tokens have the same secret.

    Args:
        secret: `SECRET` random bytes.

    Raises:
        ValueError: it has another length.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET:
            raise ValueError(f"the secret must have {SECRET} bytes")
        # The labels are older than the names here; other labels would invalidate tokens and prefixes in use.
        self._cipher = AESGCM(_key(secret, b"a2a-gateway seal 1"))
        self._names = _key(secret, b"a2a-gateway mark 1")

    def encrypt(self, text: str, bound: tuple[str, ...]) -> str:
        """Return a token of letters, digits, `-` and `_`; it differs each time.

        Args:
            bound: The owner of the token and its use; it is decrypted only with the same words.

        Raises:
            ValueError: the token would be longer than `LONGEST`, or the text is no Unicode.
        """
        nonce = os.urandom(_NONCE)
        token = _written(nonce + self._cipher.encrypt(nonce, text.encode(), _encoded(bound)))
        if len(token) > LONGEST:
            raise ValueError("the text is too long for a token")
        return token

    def decrypt(self, token: str, bound: tuple[str, ...]) -> str:
        """Return the text of a token.

        Raises:
            ValueError: it was not encrypted under this secret for exactly these words.
        """
        if len(token) > LONGEST:
            raise ValueError("too long for a token")
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        # The decoder skips unknown characters, and takes several spellings of the last one.
        if len(raw) < _NONCE + _TAG or _written(raw) != token:
            raise ValueError("no token")
        try:
            text = self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], _encoded(bound))
        except InvalidTag:
            raise ValueError("no token of ours for this") from None
        return text.decode()

    def name(self, *words: str) -> str:
        """Return the name that these words make in this order: `NAME` characters of `a` to `z` and `2` to `7`.

        Raises:
            ValueError: a word is no Unicode.
        """
        return b32encode(digest(self._names, _encoded(words), "sha256"))[:NAME].decode("ascii").lower()


def _key(secret: bytes, purpose: bytes) -> bytes:
    # RFC 5869 §3.1: a secret that is random needs no salt.
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _written(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _encoded(words: tuple[str, ...]) -> bytes:
    """Return the words, each behind its length, so that no other words are encoded alike."""
    return b"".join(len(raw).to_bytes(8, "big") + raw for raw in (word.encode() for word in words))
