"""Where do rows lie that go from Spark to slots, or back?

    {storage}/.staging/{job id}/{uid}

below the job's checkpoints, or a folder of the user's choice: driver, slots and Spark's executors must all see it. No
job id begins with a dot, so no job's checkpoints are in there.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from cutwater.connectors.contract import DriverContext
from cutwater.connectors.prepared_files import quote
from cutwater.connectors.settings import mounted_path
from cutwater.errors import ConfigurationError


def staging_folder(context: DriverContext, staging: str | None) -> str:
    """The folder of this source or sink. Without a storage it is a temporary one, deleted when the driver ends."""
    if (base := staging or context.storage) is None:
        base = tempfile.mkdtemp(prefix="cutwater-staged-")
        atexit.register(shutil.rmtree, base, ignore_errors=True)
    try:
        root = mounted_path(base)
    except ConfigurationError as error:
        raise ConfigurationError(
            f'rows of "{context.uid}" can\'t be staged in {base!r}',
            detail="Spark writes there as well; only local and mounted file systems are supported",
            hint="give staging=…, a mounted folder that the driver and all executors see",
        ) from error
    return os.path.join(root, ".staging", quote(context.job_id), quote(context.uid))
