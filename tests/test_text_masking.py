from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_text import in_pieces
from tui_agent.text import SecretMask, StreamMasker

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(["MIIEpAIBAAKCAQEA" + "abcd" * 12] * 4 + ["Zm9vYmFy=="])
    + "\n-----END RSA PRIVATE KEY-----"
)
NUMBERED = "\n".join(f"{number:>5} │ {line}" for number, line in enumerate(PEM.splitlines(), 1))
B64 = base64.urlsafe_b64encode(bytes(range(64))).decode().rstrip("=")
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJ{B64}.{B64[:43]}"

SHAPED = {
    "anthropic": ("sk-ant-api03-AbCdEfGhIjKlMnOp-0123456789_x", None),
    "openai": ("sk-proj-AbCdEfGhIjKlMnOp0123456789", None),
    "stripe": ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", None),
    "github": ("ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", None),
    "github fine": ("github_pat_" + "11ABCDEFG0123456789_abcdefghijklmnop", None),
    "gitlab": ("glpat-" + "abcdefGHIJKL12345678", None),
    "aws id": ("AKIAIOSFODNN7EXAMPLE", None),
    "aws secret": (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    "slack": ("xoxb-123456789012-abcdefGHIJ", None),
    "google": ("AIza" + "SyA-1234567890abcdefghijklmnopqrstu", None),
    "npm": ("npm_" + "abcdefghijklmnopqrstuvwxyz0123456789", None),
    "hugging face": ("hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH", None),
    "jwt": (JWT, None),
    "pem": (PEM, None),
    "pem with line numbers": (NUMBERED, NUMBERED[NUMBERED.index("-----BEGIN") :]),
    "header": ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
    "header in JSON": ('"authorization": "Basic dXNlcjpwYXNzd29yZA=="', "dXNlcjpwYXNzd29yZA=="),
    "bearer": ("bearer 0123456789abcdefghij0123", "0123456789abcdefghij0123"),
    "api key header": ("X-Api-Key: 0123456789abcdef0123", "0123456789abcdef0123"),
    "url": ("postgres://user:hunter2!x@db.example/prod", "hunter2!x"),
}

VALUES = {
    "TOKEN": "tok-Zq8w7e6r5t4y",
    "LONGER_TOKEN": "tok-Zq8w7e6r5t4y-and-more",
    "PASS_PHRASE": "correct horse battery",
    "QUOTED": 'a"b\\c/d e',
    "KEY_FILE": "line one of the key\nline two of the key\n",
    "PIN": "12",
}


@pytest.mark.parametrize(("text", "secret"), SHAPED.values(), ids=SHAPED)
def test_key_patterns_are_masked_for_every_split(text, secret):
    mask = SecretMask({})
    secret = secret or text
    for around in ("say {} now", "{}", '{{"a": "b\\n{}"}}', 'x="{}"', "({}).", "a\n{}\nb"):
        complete = around.format(text)
        masked = mask.mask(complete)
        assert secret not in masked
        assert "⟨secret " in masked and f", {len(secret)} characters⟩" in masked
        assert masked.endswith(around.format("\0").partition("\0")[2])
        for cut in range(len(complete) + 1):
            masker = StreamMasker(mask)
            assert masker.feed(complete[:cut]) + masker.feed(complete[cut:]) + masker.flush() == masked
        masker = StreamMasker(mask)
        assert "".join(map(masker.feed, complete)) + masker.flush() == masked


@pytest.mark.parametrize(
    "text",
    [
        "the desk-lamp-and-a-long-hyphenated-word-12345",
        "sk-learn-contrib-style-of-naming-things",
        "token = get_token()  # Authorization: Bearer ${TOKEN}",
        "https://localhost:11434/api/chat?x=1",
        "git@github.com:owner/repo.git",
        "the bearer of this letter is a friend",
        "a -----BEGIN CERTIFICATE----- is public",
        "write BEGIN PRIVATE KEY in dashes",
        "eyJust a word",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIabcdef",
    ],
)
def test_ordinary_text_is_unchanged(text):
    assert SecretMask({}).mask(text) == text


def test_a_private_key_without_its_end_is_masked_as_far_as_it_goes():
    cut = PEM[:200]
    masked = SecretMask({}).mask(f"{cut}\n\nThat was it.")
    assert "abcdabcd" not in masked
    assert masked.endswith("was it.")
    said = "Look for `-----BEGIN PRIVATE KEY-----` in it, then go on."
    assert SecretMask({}).mask(said).endswith("` in it, then go on.")


def test_values_are_masked_by_name():
    mask = SecretMask(VALUES)
    assert mask.mask("use tok-Zq8w7e6r5t4y!") == "use ⟨secret TOKEN, 16 characters⟩!"
    assert mask.mask("tok-Zq8w7e6r5t4y-and-more") == "⟨secret LONGER_TOKEN, 25 characters⟩"
    assert mask.mask("12 monkeys") == "12 monkeys"
    assert mask.mask('{"p": "a\\"b\\\\c/d e"}') == '{"p": "⟨secret QUOTED, 9 characters⟩"}'
    assert mask.mask("p=a%22b%5Cc%2Fd%20e") == "p=⟨secret QUOTED, 9 characters⟩"
    assert "two of" not in mask.mask("  2 │ line two of the key")
    assert SecretMask({}).mask("anything") == "anything"


def planted() -> dict[str, str]:
    chance = random.Random(35)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=-_. :@é"
    return {f"SECRET_{n}": "".join(chance.choices(letters, k=chance.randint(8, 60))).strip() + "x" for n in range(30)}


def test_thirty_planted_secrets_split_at_every_byte():
    secrets = planted()
    mask = SecretMask(secrets)
    text = " and ".join(f"{name} is {value}" for name, value in secrets.items())
    complete = mask.mask(text)
    for value in secrets.values():
        assert value not in complete
    for cut in range(len(text) + 1):
        masker = StreamMasker(mask)
        assert masker.feed(text[:cut]) + masker.feed(text[cut:]) + masker.flush() == complete


fragments = st.sampled_from(
    [
        *VALUES.values(), *(text for text, _ in SHAPED.values()), *(text[: len(text) // 2] for text, _ in SHAPED.values()),
        *(text[len(text) // 2 :] for text, _ in SHAPED.values()), "-----BEGIN", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-", " ", "\n",
        "a", "sk-", "s", "://", ":x1y2@", "Bearer ", "authorization", ": ", '"', "word", "tok-Zq8w", "x" * 300, "é",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(fragments, max_size=10).map("".join), st.lists(st.integers(min_value=0), max_size=10))
def test_masker_gives_the_same_for_every_split(text, cuts):
    mask = SecretMask(VALUES)
    assert in_pieces(StreamMasker(mask), text, cuts) == mask.mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "sk-" + "a1" * 9000,
        "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 5000,
        "x" * 40_000,
        "eyJ" * 4000 + "." + "eyJ" * 4000,
        "Bearer " + "a1" * 6000,
    ],
)
def test_masker_is_bounded_and_right_on_endless_runs(text):
    mask = SecretMask(VALUES)
    masker = StreamMasker(mask)
    out = []
    for at in range(0, len(text), 700):
        out.append(masker.feed(text[at : at + 700]))
        assert at + 700 - sum(map(len, out)) < 40_000
    assert "".join(out) + masker.flush() == mask.mask(text)


def test_masker_returns_ordinary_text_immediately():
    masker = StreamMasker(SecretMask(VALUES))
    assert masker.feed("Hello, ") == "Hello, "
    assert masker.feed("worm ") == "worm "
    assert masker.feed("of t") == "of "
    assert masker.feed("rees.") == "trees."


def test_masker_can_be_used_again_after_flush():
    masker = StreamMasker(SecretMask({"A": "abcdwxyz"}))
    assert masker.feed("abcd") == ""
    assert masker.flush() == "abcd"
    assert masker.feed("wxyz ") == "wxyz "
