"""Middleware and start of the server: security headers, assets, warm-up."""
