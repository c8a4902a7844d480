"""The control service of a job: seen and steered from another shell, a page, a script."""
