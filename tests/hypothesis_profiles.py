"""How hard Hypothesis searches: the same few examples each time, or many new ones.

`ci` (the default) is deterministic, so that a failing build fails on every machine.
`TIERFOLD_HYPOTHESIS=exhaustive` searches further, with new examples each time.
Importing this module loads the profile.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE_VARIABLE = "TIERFOLD_HYPOTHESIS"

# A deadline would measure the machine: kernels compile within the first example.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _PATIENT, derandomize=True, max_examples=60, database=None)
settings.register_profile("exhaustive", _PATIENT, max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get(PROFILE_VARIABLE, "ci"))
