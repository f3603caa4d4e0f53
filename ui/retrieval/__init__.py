"""The Retrieval page: what would this question find?"""
