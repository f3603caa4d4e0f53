"""Being here puts this folder on the path, so that tests of every folder find `shared_data` and `engine_fakes`."""
