"""An agent that edits its own memory: its tools, and the loop that runs them."""
