"""The Timeline page: tokens by turn, and every event in plain words."""
