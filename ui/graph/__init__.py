"""The Graph page: how are these connected?"""
