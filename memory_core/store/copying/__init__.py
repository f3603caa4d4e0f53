"""Copy one session's rows between databases, checked before they are stored."""
