"""The embedded model: rules and a small grammar of its own, no key, no network, the same answer to the same prompt."""

from hobus.gateway_service.providers.offline.provider import MODEL_ID, OfflineProvider

__all__ = ["MODEL_ID", "OfflineProvider"]
