"""Secrets: found in anything that would be remembered, masked in anything that is shown."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "secrets.found": ("keys, tokens, passwords, private keys, webhooks, cookies, cards and PINs are found", "product"),
    "secrets.harmless": ("commits, checksums, ids, references and placeholders are no secrets", "product"),
    "secrets.mask": ("a masked text shows the kind of each secret and cannot be turned back", "product"),
    "secrets.idempotent": ("masking a masked text changes nothing", "product"),
    "secrets.together": ("masking many texts at once gives what masking each of them gives", "product"),
    "secrets.linear": ("no text makes the search take more than time linear in its length", "product"),
}
