"""Importing packages without parts of them that this program never uses."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def import_without(package: str, part: str, *names: str) -> ModuleType:
    """Import and return `package`, with an empty module in place of its submodule `part`.

    `names` are what the package imports from `part`; they are empty classes. Nothing is replaced if either is already
    imported, and a later `import package.part` gets the real module.
    """
    full_name = f"{package}.{part}"
    if package in sys.modules or full_name in sys.modules:
        return importlib.import_module(package)
    stub = ModuleType(full_name)
    vars(stub).update({name: type(name, (), {}) for name in names})
    sys.modules[full_name] = stub
    try:
        return importlib.import_module(package)
    finally:
        sys.modules.pop(full_name, None)
