"""What does the shell offer when the tab key is hit? Quick: nothing here may import Arrow or Spark."""

from __future__ import annotations


def job_names(incomplete: str) -> list[str]:
    """Ids and names of the jobs that live."""
    from cutwater.serving.registry import registrations

    known = {name for each, lives in registrations() if lives for name in (each.job_id, each.name)}
    return sorted(name for name in known if name.startswith(incomplete))


def setting_keys(incomplete: str) -> list[str]:
    """Of `--set`, up to the sign of equality."""
    from cutwater.api.overrides import keys

    return [f"{key}=" for key in keys() if key.startswith(incomplete)]
