"""PostgreSQL: connections with few round trips, and notifications between processes."""
