"""Middleware and start of the server: recording proxy, span receiver, security headers, assets, warm-up."""
