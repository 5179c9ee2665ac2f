"""What the gateway gives out and alone can read again, and names that it alone can make.

A token that a client holds for the gateway may tell of what is another tenant's: the page token of an agent that
several tenants share holds the id of whichever task comes next. So it is *sealed*: encrypted, and bound to whom it was
given and what for, without which it does not open. A *mark* is a name that is the same whenever it is made of the same
words, and that nobody else can make or read.
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
"""Characters of a token, all of them ASCII."""
MARK = 26
"""Characters of a mark: 130 bits, so that two do not meet by chance."""

# NIST SP 800-38D: 96 random bits are good for 2^32 tokens under one key, at a chance of 2^-33 that two of them meet.
_NONCE = 12
_TAG = 16


class Seal:
    """Closes tokens, opens them again, and makes marks: all under one secret, with a key for each.

    Gateways that are to open each other's tokens have the same secret.

    Args:
        secret: Random bytes, `SECRET` of them.

    Raises:
        ValueError: it has another length.
    """

    __slots__ = ("_cipher", "_marks")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET:
            raise ValueError(f"the secret must have {SECRET} bytes")
        self._cipher = AESGCM(_key(secret, b"a2a-gateway seal 1"))
        self._marks = _key(secret, b"a2a-gateway mark 1")

    def close(self, text: str, bound: tuple[str, ...]) -> str:
        """A token that holds a text, in letters, digits, `-` and `_`; never the same one twice.

        Args:
            bound: Whom and what it is for, in that order; whoever opens it has to say the same.

        Raises:
            ValueError: the token would be longer than `LONGEST`; or something is no Unicode.
        """
        nonce = os.urandom(_NONCE)
        token = _written(nonce + self._cipher.encrypt(nonce, text.encode(), _encoded(bound)))
        if len(token) > LONGEST:
            raise ValueError("the text is too long for a token")
        return token

    def open(self, token: str, bound: tuple[str, ...]) -> str:
        """The text of a token.

        Raises:
            ValueError: it was not closed under this secret for exactly this; why not is not told.
        """
        if len(token) > LONGEST:
            raise ValueError("too long for a token")
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        # The decoder skips what it does not know, and takes several spellings of the last character.
        if len(raw) < _NONCE + _TAG or _written(raw) != token:
            raise ValueError("no token")
        try:
            text = self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], _encoded(bound))
        except InvalidTag:
            raise ValueError("no token of ours for this") from None
        return text.decode()

    def mark(self, *words: str) -> str:
        """A name made of these words, in this order: `MARK` characters of `a` to `z` and `2` to `7`.

        Raises:
            ValueError: a word is no Unicode.
        """
        return b32encode(digest(self._marks, _encoded(words), "sha256"))[:MARK].decode("ascii").lower()


def _key(secret: bytes, purpose: bytes) -> bytes:
    # RFC 5869 §3.1: a secret that is random needs no salt.
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _written(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _encoded(words: tuple[str, ...]) -> bytes:
    """The words, so that no others are written alike: each behind its length."""
    return b"".join(len(raw).to_bytes(8, "big") + raw for raw in (word.encode() for word in words))
