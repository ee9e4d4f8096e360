"""The HTTP door: OpenAI-compatible and native access to sessions. Loaded after the fork, and only where it is on."""
