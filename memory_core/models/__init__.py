"""Clients of chat and embedding models, and the offline ones. Import each from its own module: some load slowly."""
