"""The full-screen surface. Only this package and `widgets` import Textual.

Importing it puts the program's folder first on `sys.path`, so that a `widgets` folder in the workspace is not imported.
"""

from __future__ import annotations

import sys

from tui_agent import ROOT

if sys.path[:1] != [str(ROOT)]:
    sys.path.insert(0, str(ROOT))
