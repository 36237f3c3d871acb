"""The networks that the paper compares with, one file each, most of them in one of two common frames.

Importing this package imports its files, and each registers its models: a file put into this folder is a new baseline.
Nothing is built until ``create_model`` is called. What several baselines are built from is in ``parts``.
"""

import importlib
import pkgutil

for _file in pkgutil.iter_modules(__path__):
    if not _file.ispkg:
        importlib.import_module(f"{__name__}.{_file.name}")
