"""The Facts page: the curation desk."""
