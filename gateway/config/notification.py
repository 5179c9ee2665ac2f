"""Push notifications: webhooks that could never be called, and permissions that say less than they seem to."""

import ipaddress

from gateway.config.address import is_loopback
from gateway.config.backend import check_authority_file
from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath
from gateway.config.push import Push
from gateway.config.webhook import WebhookPattern

_AT: KeyPath = ("push",)
_ALLOW: KeyPath = (*_AT, "allow")
_RELAYED = frozenset({"deliver", "max_per_task", "max_per_tenant", "sign", "tls"})


def check_notifications(config: Config, findings: Findings) -> None:
    """Find what is wrong with `push`."""
    push = config.push
    if "allow" in push.model_fields_set and not push.allow:
        findings.error(_ALLOW, "no webhook may be named", "write `mode: none` for that, or name some")
    for number, pattern in enumerate(push.allow):
        _pattern(pattern, push, (*_ALLOW, number), findings)
    if not push.block_private_networks and not push.allow:
        fact = "it opens nothing: only webhooks that `allow` lists may have private addresses"
        findings.warning((*_AT, "block_private_networks"), fact, "list them in `allow`, or remove it")
    if push.mode != "relay":
        for key in sorted(_RELAYED & push.model_fields_set):
            fact = f"it says how the gateway calls webhooks, and it calls none: `push.mode` is {push.mode}"
            findings.warning((*_AT, key), fact, "write `mode: relay`, or remove it")
    if push.mode == "none" and push.allow:
        findings.warning(_ALLOW, "no webhook may be named: `push.mode` is none", "remove one of the two")
    if push.tls is not None:
        check_authority_file(push.tls.ca, (*_AT, "tls", "ca"), findings)
    deliver = push.deliver
    if deliver.longest_pause < deliver.first_pause:
        written = "longest_pause" if "longest_pause" in deliver.model_fields_set else "first_pause"
        fact = "the longest pause would be shorter than the first"
        findings.error((*_AT, "deliver", written), fact, "make `longest_pause` the longer one")


def _pattern(pattern: WebhookPattern, push: Push, at: KeyPath, findings: Findings) -> None:
    if _is_never_called(pattern.host):
        findings.error(at, "no webhook is called at this address, whatever allows it", "name a machine's own address")
        return
    if not push.block_private_networks:
        return
    if pattern.scheme == "http":
        fact = "plain http goes nowhere while private networks are blocked"
        findings.error(at, fact, "write https, or `block_private_networks: false` where what is listed may be private")
    elif _is_private(pattern.host):
        fact = "the address is private, and private networks are blocked"
        findings.error(at, fact, "write `block_private_networks: false` where what is listed may be private")


def _is_never_called(host: str) -> bool:
    """Whether it is an address where clouds hand out credentials, or that is no machine's."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_link_local or address.is_multicast or address.is_unspecified


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return is_loopback(host)
