"""PostgreSQL: connections with few round trips, and news between processes."""
