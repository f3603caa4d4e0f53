"""Being here puts this folder on the path, so that tests of every folder find `shared_data` and `engine_fakes`."""

from hypothesis import settings

settings.register_profile("suite", settings.default, deadline=None)  # no test may fail because the machine was busy
settings.load_profile("suite")
