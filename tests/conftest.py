"""What all tests share."""

from hypothesis import settings

# How long an example takes is the machine's affair.
settings.register_profile("planscope", settings.default, deadline=None)
settings.load_profile("planscope")
