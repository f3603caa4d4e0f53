"""Conversations that the app ships, as messages to be played through the real engine."""
