"""The conversations that the app ships, as words to be played through the real engine."""
