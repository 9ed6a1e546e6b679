from __future__ import annotations

import pytest

from tests.nightly import crossed
from tests.scenes import build
from tests.tui.kit import app_for, wait_until_rendered

TABLES = """| # | Setting | What it does | Required |
|--:|:--------|--------------|:--------:|
| 1 | `retries` | How often a request is sent again after the server refused it or did not answer in time | no |
| 2 | `base_url` | Where the server is, see https://example.com/setup | yes |

| File | What | Why |
|---|---|---|
| src/exporter/formats/spreadsheet/implementation_of_writer.py | Writes rows in one go | It was slow |
| README.md | Names the new option | Users asked for it |
"""
SOURCES = """The sum is \\(\\sum_{i=1}^n x_i\\), so $x_1 * y_1$ stays. See [the guide](https://example.com/guide).

```diff
--- a/src/export.py
+++ b/src/export.py
@@ -1,3 +1,3 @@
 def write(rows):
-    return [row for row in rows if row]
+    return [row for row in rows if row.is_complete and row.is_wanted and not row.is_a_duplicate]
```

```python
total = sum(price * count for price, count in zip(prices, counts, strict=True) if count)
```
"""
TEXTS = {"tables": TABLES, "sources": SOURCES}
LOOKS = {
    f"{theme}-{width}x{height}": (theme, (width, height))
    for theme in ("dark", "light")
    for width, height in ((80, 24), (120, 40))
}


@pytest.mark.parametrize(("name", "look"), crossed(list(TEXTS), LOOKS))
def test_shown(name: str, look: tuple[str, tuple[int, int]], snap_compare) -> None:
    theme, size = look
    text = TEXTS[name]
    records = build.Scene().opened().ask("Show me").reply().write(text).end(text).done().records
    app, _session = app_for(records, theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=wait_until_rendered)
