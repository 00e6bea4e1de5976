"""``python -m bdqn`` is ``bdqn``."""

import sys

from bdqn.cli import main

sys.exit(main())
