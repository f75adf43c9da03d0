"""`python -m sm100sim`."""

import sys

from .command.main import main

sys.exit(main())
