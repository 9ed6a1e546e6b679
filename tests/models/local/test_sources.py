from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tui_agent.models.local import sources
from tui_agent.models.local.library import split_name
from tui_agent.models.local.memory import GraphicsCard, Memory
from tui_agent.models.local.sources import (
    HubSource,
    OllamaSource,
    PackageSource,
    PathSource,
    SourceError,
    WebSource,
    choose_files,
    file_name,
    parse_source,
    quantization_of,
    resolve,
    suggest,
    suggestions,
    total_size,
)

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("text", "repository", "wanted"),
    [
        ("Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", ""),
        ("hf:a/b-GGUF", "a/b-GGUF", ""),
        ("hf:a/b-GGUF:Q5_K_M", "a/b-GGUF", "Q5_K_M"),
        ("a/b:model.gguf", "a/b", "model.gguf"),
        ("hf.co/a/b:Q8_0", "a/b", "Q8_0"),
        ("https://huggingface.co/a/b", "a/b", ""),
        ("https://huggingface.co/a/b/tree/main", "a/b", ""),
        ("https://huggingface.co/a/b/blob/main/sub/m-Q4_0.gguf", "a/b", "sub/m-Q4_0.gguf"),
        ("https://huggingface.co/a/b/resolve/main/m.gguf?download=true", "a/b", "m.gguf"),
    ],
)
def test_repositories(text: str, repository: str, wanted: str) -> None:
    assert parse_source(text, env={}) == (HubSource(repository=repository, wanted=wanted),)


def test_other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (web,) = parse_source("https://user:secret@example.org/x/m%20one.gguf?key=1", env={})
    assert isinstance(web, WebSource) and web.files[0].name == "m one.gguf"
    assert web.origin == "https://example.org/x/m%20one.gguf"
    assert parse_source("package:weights==1.2") == (PackageSource(requirements=("weights==1.2",)),)
    assert parse_source("ollama:qwen2.5-coder:7b") == (OllamaSource(name="qwen2.5-coder:7b"),)
    assert parse_source("qwen2.5-coder:7b", "ollama") == (OllamaSource(name="qwen2.5-coder:7b"),)
    assert parse_source("/somewhere/m.gguf") == (PathSource(path=Path("/somewhere/m.gguf")),)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "m.gguf").touch()
    assert parse_source("sub/m.gguf") == (PathSource(path=Path("sub/m.gguf")),)
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example/")
    assert parse_source("http://mirror.example/a/b") == (HubSource(repository="a/b"),)


@pytest.mark.parametrize(
    "text",
    [
        "", "qwen2.5-coder:7b", "package:", "package:--index-url=x", "package:a b", "package:a; x", "https://example.org/",
        "https://example.org/model.bin", "https://example.org/.gguf", "https:///m.gguf", "nothing",
        "http://[x/m.gguf", f"{'x' * 300}.gguf",
    ],
)  # fmt: skip
def test_what_is_no_source_is_explained(text: str) -> None:
    with pytest.raises(SourceError) as failed:
        parse_source(text, "openai", env={})
    assert failed.value.code == "unknown" and str(failed.value).endswith(".")


@pytest.mark.parametrize("text", ["gone.gguf", "hf:a"])
def test_what_can_not_be_a_name_is_not_asked_of_ollama(text: str) -> None:
    with pytest.raises(SourceError, match="is not a known model"):
        parse_source(text, "ollama", env={})


def test_a_misspelled_suggestion_is_corrected() -> None:
    with pytest.raises(SourceError, match=r"did you mean `qwen2.5-coder-7b`"):
        parse_source("qwen2.5-coder7b")


# --- suggestions ----------------------------------------------------------------------------


def test_suggestions_fit_into_memory_and_the_best_is_first() -> None:
    def names(total: float, *cards: float) -> list[str]:
        graphics = tuple(GraphicsCard(name="x", total=int(size), free=int(size)) for size in cards)
        return [one.name for one in suggest(Memory(total=int(total), available=int(total), graphics=graphics))]

    assert names(8e9) == ["qwen2.5-coder-7b", "qwen3-4b-instruct", "qwen2.5-coder-1.5b"]
    assert names(4e9) == ["qwen2.5-coder-1.5b"] == names(1e9)
    assert names(64e9) == ["qwen3-coder-30b", "gpt-oss-20b", "qwen2.5-coder-1.5b"]
    assert names(64e9, 16e9) == ["qwen3-coder-30b", "gpt-oss-20b", "qwen2.5-coder-1.5b"]
    assert names(8e9, 16e9)[0] == "qwen3-coder-30b"


def test_suggestions_are_complete() -> None:
    assert len({one.name for one in suggestions()}) == len(suggestions()) >= 6
    for one in suggestions():
        assert parse_source(one.name.upper()) == one.sources
        assert one.size < one.memory and one.license and one.expect.endswith(".")
        assert 0.3 < one.size / (one.parameters * 1e9) < 0.8  # about 4 bits a parameter
        assert isinstance(one.sources[0], HubSource) and one.sources[0].wanted.endswith(".gguf")


def test_the_smallest_suggestion_also_comes_from_packages() -> None:
    hub, packages = suggestions()[0].sources
    assert isinstance(hub, HubSource) and isinstance(packages, PackageSource)
    assert len(packages.requirements) == 22 and packages.requirements[21].endswith("part22==0.2.0")
    assert packages.file == hub.wanted and len(packages.sha256) == 64
    assert packages.size == suggestions()[0].size


# --- files of a repository ------------------------------------------------------------------


def entries(*paths: str) -> list[dict[str, object]]:
    return [{"type": "file", "path": path, "size": 10, "lfs": {"oid": HASH}} for path in paths]


def chosen(wanted: str, *paths: str) -> list[object]:
    return [entry["path"] for entry in choose_files(entries(*paths), HubSource(repository="a/b", wanted=wanted))]


def test_the_default_is_four_bits_or_the_nearest() -> None:
    assert chosen("", "m-Q2_K.gguf", "m-q4_k_m.gguf", "m-Q8_0.gguf", "README.md") == ["m-q4_k_m.gguf"]
    assert chosen("", "m-Q2_K.gguf", "m-Q5_K_M.gguf", "m-Q8_0.gguf") == ["m-Q5_K_M.gguf"]
    assert chosen("", "mmproj-F16.gguf", "m-f16.gguf") == ["m-f16.gguf"]
    assert chosen("", "x.gguf") == ["x.gguf"]


def test_a_quantization_or_file_is_chosen_in_any_spelling() -> None:
    files = ("m-Q4_K_M.gguf", "m-UD-Q5_K_XL.gguf", "sub/m-IQ3_XXS.gguf", "m-BF16.gguf")
    assert chosen("q4_k_m", *files) == ["m-Q4_K_M.gguf"]
    assert chosen("Q5_K_XL", *files) == ["m-UD-Q5_K_XL.gguf"]
    assert chosen("iq3_xxs", *files) == ["sub/m-IQ3_XXS.gguf"]
    assert chosen("M-BF16", *files) == ["m-BF16.gguf"]
    assert chosen("sub/m-iq3_xxs.gguf", *files) == ["sub/m-IQ3_XXS.gguf"]
    with pytest.raises(SourceError, match=r"It has: BF16, IQ3_XXS, Q4_K_M, UD-Q5_K_XL"):
        chosen("Q6_K", *files)


def test_one_file_is_preferred_to_several_and_several_must_be_complete() -> None:
    split = ("m-q4_k_m-00001-of-00002.gguf", "m-q4_k_m-00002-of-00002.gguf")
    assert chosen("", *split, "m-q4_k_m.gguf") == ["m-q4_k_m.gguf"]
    assert chosen("q4_k_m", *reversed(split)) == list(split)
    with pytest.raises(SourceError, match=r"no \.gguf files"):
        chosen("", split[0])


def test_names_that_lead_out_of_a_folder_are_refused() -> None:
    with pytest.raises(SourceError, match=r"no \.gguf files"):
        chosen("", "sub/.gguf", "a/..%2fb\n.gguf", "..gguf", "-x.gguf")


@pytest.mark.parametrize(
    ("name", "quantization"),
    [("m-Q4_K_M.gguf", "Q4_K_M"), ("gpt-oss-20b-mxfp4.gguf", "MXFP4"), ("m.F16.gguf", "F16"), ("m7-Instruct.gguf", ""),
     ("m-q8_0-00001-of-00003.gguf", "Q8_0"), ("m-UD-IQ2_M.gguf", "UD-IQ2_M")],
)  # fmt: skip
def test_the_quantization_is_read_from_the_name(name: str, quantization: str) -> None:
    assert quantization_of(name) == quantization


async def tree(connection: FakeConnection) -> None:
    await connection.answer(200, [{"type": "directory", "path": "sub"}, *entries("sub/m one-Q4_K_M.gguf")])


async def test_a_repository_gives_address_size_hash_and_license() -> None:
    async def about(connection: FakeConnection) -> None:
        await connection.answer(200, {"cardData": {"license": "apache-2.0"}})

    routes: dict[str, Script] = {"/api/models/a/b/tree/main": tree, "/api/models/a/b": about}
    async with FakeRawServer(routes) as server:
        found = await resolve(HubSource(repository="a/b"), {"HF_ENDPOINT": server.url, "HF_TOKEN": "secret"})
    assert isinstance(found, WebSource) and found.license == "apache-2.0" and found.token == "secret"
    (file,) = found.files
    assert (file.name, file.size, file.sha256) == ("m one-Q4_K_M.gguf", 10, HASH)
    assert file.url == f"{server.url}/a/b/resolve/main/sub/m%20one-Q4_K_M.gguf"
    assert {request.headers.get("authorization") for request in server.requests} == {"Bearer secret"}
    assert total_size(found) == 10


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(401, "not_found", "HF_TOKEN"), (404, "not_found", "Check its name"), (403, "denied", "Accept its terms"),
     (307, "not_found", "has moved"),
     (500, "unreachable", "HF_ENDPOINT")],
)  # fmt: skip
async def test_a_refusal_says_what_to_do(status: int, code: str, words: str) -> None:
    async def refuse(connection: FakeConnection) -> None:
        await connection.answer(status, {"error": "no"})

    async with FakeRawServer({"/api/models/a/b/tree/main": refuse}) as server:
        with pytest.raises(SourceError, match=words) as failed:
            await resolve(HubSource(repository="a/b"), {"HF_ENDPOINT": server.url})
    assert failed.value.code == code


async def test_no_server_is_a_sentence() -> None:
    with pytest.raises(SourceError, match="Check your network"):
        await resolve(HubSource(repository="a/b"), {"HF_ENDPOINT": "http://127.0.0.1:9"})


def test_the_default_address_is_the_public_hub() -> None:
    assert sources.hub_address({}) == "https://huggingface.co"
    assert sources.hub_address({"HF_ENDPOINT": "http://m/ "}) == "http://m"


async def test_a_public_address_is_reached_by_the_proxy_and_unencrypted_without_the_token() -> None:
    address = "http://hub.example.org"
    async with FakeRawServer({f"{address}/api/models/a/b/tree/main": tree}) as proxy:
        env = {"HF_ENDPOINT": address, "HF_TOKEN": "secret", "http_proxy": proxy.url}
        found = await resolve(HubSource(repository="a/b"), env)
    assert isinstance(found, WebSource) and found.token == ""
    assert len(proxy.requests) == 2 and all("authorization" not in request.headers for request in proxy.requests)


# --- any input ------------------------------------------------------------------------------

WORDS = st.one_of(
    st.text(max_size=40), st.from_regex(r"(hf:|package:|ollama:|https://)?[\w.%/:@=-]{0,40}(\.gguf)?", fullmatch=True)
)
PATHS = st.from_regex(r"[\w./%-]{0,20}(-Q4_K_M|-\d{5}-of-\d{5})?(\.gguf)?", fullmatch=True)


@given(WORDS, st.sampled_from(["", "ollama", "openai"]))
def test_whatever_is_typed_is_a_source_or_explained(text: str, provider: str) -> None:
    try:
        found = parse_source(text, provider, {})
    except SourceError as error:
        assert str(error).endswith(".")
        return
    for source in found:
        if isinstance(source, WebSource):
            assert "/" not in source.files[0].name and source.files[0].name.lower().endswith(".gguf")
        elif isinstance(source, PackageSource):
            assert not any(name.startswith("-") or " " in name for name in source.requirements)


@given(st.lists(PATHS, max_size=8), st.text(max_size=10))
def test_the_files_that_are_chosen_are_of_one_complete_model(paths: list[str], wanted: str) -> None:
    try:
        files = choose_files(entries(*paths), HubSource(repository="a/b", wanted=wanted))
    except SourceError:
        return
    names = [file_name(str(entry["path"])) for entry in files]
    assert names and all(names) and not any("/" in name or name.startswith((".", "-")) for name in names)
    assert len(names) == split_name(names[0])[2] and len({split_name(name)[0] for name in names}) == 1
