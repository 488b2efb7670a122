"""Settings for property tests about results: a busy machine, or a first run that builds tables, is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
