"""Clients of chat and embedding models, and offline models. Import from the modules directly: some load slowly."""
