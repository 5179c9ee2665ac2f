"""The configuration as it may be shown: whole, but for what is secret."""

from typing import Any

from gateway.config.model import Config
from gateway.config.secrets import MASK


def shown(config: Config) -> dict[str, Any]:
    """The configuration in its long form, with every credential, key hash and token masked."""
    tree: dict[str, Any] = config.model_dump(mode="json", by_alias=True)
    for key in (tree.get("auth") or {}).get("api_keys", {}).values():
        # A weak key can be found from its hash.
        key["sha256"] = [MASK for _ in key["sha256"]]
    return tree
