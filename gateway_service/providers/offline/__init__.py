"""The embedded model: rules and a small grammar of its own, no key, no network, the same answer to the same prompt."""
