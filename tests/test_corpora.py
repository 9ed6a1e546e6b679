from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests import corpora_adapters

CORPORA = Path(__file__).parent / "corpora"


def expand(value: Any) -> Any:
    if not isinstance(value, dict) or "gen" not in value:
        return value
    pieces = []
    for piece, count in value["gen"]:
        if "{i}" in piece:
            pieces += [piece.replace("{i}", str(number)) for number in range(count)]
        else:
            pieces.append(piece * count)
    return "".join(pieces)


def content(case: dict[str, Any], key: str) -> bytes | None:
    if f"{key}_b64" in case:
        return base64.b64decode(case[f"{key}_b64"])
    text = expand(case.get(key))
    return None if text is None else text.encode("utf-8")


def cases(name: str) -> list[Any]:
    loaded = json.loads((CORPORA / name).read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["id"]) for case in loaded]


@pytest.mark.parametrize("case", cases("edits.json"))
def test_edits(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case.get("filename", "file.txt")
    before = content(case, "before")
    if before is not None:
        path.write_bytes(before)
        if "mode" in case:
            path.chmod(int(case["mode"], 8))
    answer = corpora_adapters.apply_edit(
        str(path), expand(case["old"]), expand(case["new"]), bool(case.get("replace_all"))
    )
    now = path.read_bytes() if path.exists() else None
    assert [one for one in os.listdir(tmp_path) if one != path.name] == []
    accepted = [*case.get("error", ())] + [one for also in case.get("also_ok", ()) for one in also.get("error", ())]
    wanted = [content(one, "after") for one in (case, *case.get("also_ok", ())) if "after" in one or "after_b64" in one]
    if answer is None or answer.get("ok"):
        assert now in wanted
        if "mode" in case:
            assert stat.S_IMODE(path.stat().st_mode) == int(case["mode"], 8)
    else:
        assert now == before
        assert "*" in accepted or answer["error"] in accepted, answer
