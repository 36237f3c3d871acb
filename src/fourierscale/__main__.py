"""``python -m fourierscale`` is the command ``fourierscale``."""

import sys

from fourierscale.cli import main

sys.exit(main())
