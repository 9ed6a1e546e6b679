"""What tools touch: permissions, grants, the workspace, snapshots, language servers."""

from __future__ import annotations
