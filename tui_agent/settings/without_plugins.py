"""pydantic without plugins of other packages, for whoever imports this before the first model.

To look for them takes a megabyte of every start, and what is found would be run (X1, R-04).
"""

from __future__ import annotations

import sys
from types import ModuleType

_NAME = "pydantic.plugin._loader"

if (
    _NAME not in sys.modules
):  # where pydantic calls it otherwise one day, it looks for them again, and nothing else
    _nothing = ModuleType(_NAME)
    vars(_nothing)["get_plugins"] = tuple
    sys.modules[_NAME] = _nothing
