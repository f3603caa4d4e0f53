"""Tests of the adapters: a package, so that a module here may have the name of one above."""
