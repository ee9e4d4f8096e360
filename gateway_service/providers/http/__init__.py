"""Providers that are asked over HTTP, by their official SDKs."""
