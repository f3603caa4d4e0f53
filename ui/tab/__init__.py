"""State of one browser tab: the session and moment it shows, its colours, and its links."""
