"""The screen: the only rooms that know Textual, together with `widgets/`.

Importing it makes `widgets` importable from where this program lies, ahead of a folder of that name in the workspace.
"""

from __future__ import annotations

import sys

from tui_agent import ROOT

if sys.path[:1] != [str(ROOT)]:
    sys.path.insert(0, str(ROOT))
