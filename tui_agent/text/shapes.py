"""What keys look like: a table of forms that are hardly ever anything else, since over-masking ruins transcripts."""

from __future__ import annotations

import re
import string

LONGEST = 6400
"""No match but a PEM block is longer than this: every repetition below is bounded."""

LOOK_BACK = 2
"""Characters before a match that its pattern looks at."""

TOKEN_CHARACTERS = string.ascii_letters + string.digits + "_-./+=~:@%!$&*?#^"
"""All that a key may consist of; whatever else ends it."""

_TOKEN = rf"[{re.escape(TOKEN_CHARACTERS)}]"

# Nothing that could belong to the same word stands before; the n of a `\\n` in JSON does not belong to it.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"

SHAPES: tuple[tuple[str, str, str], ...] = (
    ("API key", "sk-", _EDGE + r"sk-(?=[A-Za-z\-_]{0,60}[0-9])[A-Za-z0-9_\-]{16,256}"),
    ("API key", "sk_live_", r"sk_live_[A-Za-z0-9]{16,256}"),
    ("API key", "rk_live_", r"rk_live_[A-Za-z0-9]{16,256}"),
    ("API key", "gsk_", _EDGE + r"gsk_[A-Za-z0-9]{32,128}"),
    ("API key", "xai-", _EDGE + r"xai-[A-Za-z0-9]{40,128}"),
    ("API key", "AIza", r"AIza[A-Za-z0-9_\-]{35}"),
    ("API key", "SG.", _EDGE + r"SG\.[A-Za-z0-9_\-]{16,64}\.[A-Za-z0-9_\-]{16,64}"),
    ("API key", "dop_v1_", r"dop_v1_[a-f0-9]{64}"),
    ("API key", "shpat_", r"shpat_[A-Fa-f0-9]{32}"),
    *(("GitHub token", f"gh{kind}_", _EDGE + rf"gh{kind}_[A-Za-z0-9]{{20,255}}") for kind in "pousr"),
    ("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
    ("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_\-]{16,128}"),
    *(("AWS key", start, _EDGE + rf"{start}[A-Z0-9]{{16}}(?![A-Za-z0-9])") for start in ("AKIA", "ASIA")),
    ("Slack token", "xox", _EDGE + r"xox[abeprs]-[A-Za-z0-9\-]{10,255}"),
    ("Slack token", "xapp-", r"xapp-[A-Za-z0-9\-]{10,255}"),
    ("Google token", "ya29.", r"ya29\.[A-Za-z0-9_\-]{20,1024}"),
    ("npm token", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_\-]{40,512}"),
    ("Hugging Face token", "hf_", _EDGE + r"hf_[A-Za-z0-9]{30,128}"),
    (
        "JSON web token",
        "eyJ",
        r"eyJ[A-Za-z0-9_\-]{8,1024}\.eyJ[A-Za-z0-9_\-]{8,4000}\.[A-Za-z0-9_\-]{8,1024}",
    ),
    (
        "password in a URL",
        "://",
        r"://[A-Za-z0-9_.~%+\-]{0,64}:(?P<hide>[A-Za-z0-9_.~%+\-=:!$&*?#^]{3,256})@",
    ),
)
"""Label, the literal it begins with, pattern. What is hidden is the group `hide`, or all of it."""

_IS = r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"

HEADERS: tuple[tuple[str, str, str], ...] = (
    (
        "authorization",
        "authorization",
        rf"authorization{_IS}(?:bearer|basic|token|digest|apikey)[ \t]{{1,4}}(?P<hide>{_TOKEN}{{8,4096}})",
    ),
    (
        "bearer token",
        "bearer",
        _EDGE + rf"bearer[ \t]{{1,4}}(?=[a-z_\-]{{0,60}}[0-9])(?P<hide>{_TOKEN}{{20,4096}})",
    ),
    ("API key", "api-key", rf"api-key{_IS}(?=[a-z_\-]{{0,60}}[0-9])(?P<hide>{_TOKEN}{{16,512}})"),
    ("AWS secret key", "aws_secret_access_key", rf"aws_secret_access_key{_IS}(?P<hide>[a-z0-9/+=]{{40,64}})"),
)
"""The same for keys that are told by what stands before them; letters of either case."""

OPEN_HEADER = re.compile(
    rf"(?i:(?:authorization|bearer|api-key|aws_secret_access_key)"
    rf"[\"']?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}[\"']?(?:[a-z]{{0,6}}[ \t]{{1,4}})?{_TOKEN}{{0,4096}}\Z)"
)
"""One of HEADERS that may go on after the end of the text."""

_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_KEY_LINE = r"[^A-Za-z+/=]{0,16}[A-Za-z0-9+/=]"
_PEM_WHOLE = rf"-----BEGIN {_NAME}-----[\s\S]{{0,8192}}?-----END {_NAME}-----"
PEM = (
    rf"(?:{_PEM_WHOLE}"
    rf"|-----BEGIN {_NAME}-----(?:(?:{_KEY_LINE}{{40,128}}){{1,60}}(?:{_KEY_LINE}{{1,128}})?)?)"
)
"""A private key, whatever stands at the beginning of its lines; without its end as far as it looks like one."""

PEM_LONGEST = 9216
"""No PEM match is longer."""

PEM_BEGIN = re.compile(rf"-----BEGIN(?:(?P<whole> {_NAME}-----)|[A-Z0-9 ]{{0,60}}-{{0,5}})")
PEM_ENDED = re.compile(_PEM_WHOLE)
