from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models import seed_models
from tui_agent.common.domain import ModelInfo
from tui_agent.models import catalog
from tui_agent.models.catalog import Catalog, CatalogRead


def read(text: str) -> CatalogRead:
    return catalog.parse_catalog(text)


def one_model(**fields: Any) -> str:
    return json.dumps({"models": {"m": fields}}, indent=1)


def test_the_seeds_own_file_is_read_without_a_word() -> None:
    done = read(seed_models.TEXT)
    assert not done.problems
    assert done.catalog is not None
    entry = done.catalog.entry("qwen2.5-coder:32b")
    assert entry.display_name == "Qwen 2.5 Coder 32B"
    assert entry.window == 32_768
    assert entry.recommended_for == ("complex_tasks", "architecture", "refactoring")
    assert entry.prompt.endswith("decision logs")
    assert done.catalog.rules.default == "qwen2.5-coder:7b"
    assert done.catalog.rules.by_task_type["planning"] == "llama3.1:8b"


def test_options_count_and_num_ctx_before_the_window() -> None:
    options = {"num_ctx": 8192, "temperature": 1, "think": "low", "keep_alive": "1h", "num_predict": 512}
    done = read(one_model(contextWindow=128_000, options=options))
    assert done.catalog is not None and not done.problems
    entry = done.catalog.entry("m")
    assert (entry.window, entry.options.temperature, entry.options.think) == (8192, 1.0, "low")
    assert (entry.options.keep_alive, entry.options.num_predict) == ("1h", 512)


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("", 1, "", "is empty"),
        ('{\n"models": {', 2, "", "unexpected end"),
        ('{\n"models": {\n},\n}', 4, "", "comma"),
        ("[]", 1, "", "must be an object"),
        ('{"models": []}', 1, "models", "in braces, not a list"),
        ('{\n "models": {\n  "a": {\n   "contextWindow": "32k"\n}}}', 4, "models.a.contextWindow", '"32k"'),
        ('{\n "models": {\n  "a": {"contextWindow": true}}}', 3, "models.a.contextWindow", "not true"),
        ('{"models": {"a": {"contextWindow": 12}}}', 1, "models.a.contextWindow", "from 1,024"),
        ('{"models": {\n"a": 7}}', 2, "models.a", "must be an object"),
        ('{"models": {"a": {\n"options": {\n"temperature": 3}}}}', 3, "models.a.options.temperature", "0 to 2"),
        ('{"models": {"a": {"options": {\n"think": "loud"}}}}', 2, "models.a.options.think", "low, medium"),
        ('{"models": {"a": {"capabilities": "tools"}}}', 1, "models.a.capabilities", "list of strings"),
        ('{"models": {},\n"selectionRules": {"default": 3}}', 2, "selectionRules.default", "name of a model"),
        ('{"models": {"a": {},\n"a": {}}}', 2, "models.a", "appears twice; line 1 is used"),
        ('{"model": {}}', 1, "", 'has no "models"'),
    ],
)
def test_a_mistake_is_named_with_line_and_field(text: str, line: int, field: str, words: str) -> None:
    done = read(text)
    assert done.catalog is None
    wrong = [problem for problem in done.problems if not problem.ignored]
    assert [(one.line, one.field) for one in wrong] == [(line, field)]
    assert words in wrong[0].message
    assert str(wrong[0]).startswith(f"models.json, line {line}: ")


def test_every_mistake_is_named_at_once() -> None:
    done = read('{"models": {"a": {"contextWindow": "x",\n"prompt": 3},\n"b": {"options": []}}}')
    assert [problem.line for problem in done.problems] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("contextwindow", "contextWindow"), ("num_ctx", "options.num_ctx"), ("display_name", "displayName")],
)
def test_an_unknown_field_is_told_and_the_rest_counts(name: str, meant: str) -> None:
    done = read(one_model(**{name: 8192, "prompt": "Be brief."}))
    assert done.catalog is not None
    assert done.catalog.entry("m").prompt == "Be brief."
    (problem,) = done.problems
    assert problem.ignored
    assert f'did you mean "{meant}"' in problem.message


def test_notes_beside_the_fields_are_nobodys_business() -> None:
    assert not read(json.dumps({"_comment": "mine", "models": {"a": {"//": "fast"}}})).problems


def test_the_tag_latest_may_be_left_out() -> None:
    done = read('{"models": {"llama3": {"prompt": "p"}}}')
    assert done.catalog is not None
    assert done.catalog.entry("llama3:latest").prompt == "p"
    assert done.catalog.entry("llama3:8b").prompt == ""
    assert catalog.served_name("llama3", ["x", "llama3:latest"]) == "llama3:latest"


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert catalog.read_catalog(tmp_path / "models.json").missing


def test_what_is_no_text_or_no_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_bytes(b'{\n"models": "\xff"}')
    assert catalog.read_catalog(file).problems[0].line == 2
    file.write_bytes(b" " * 300_000)
    assert "300,000 bytes" in str(catalog.read_catalog(file).problems[0])
    file.unlink()
    os.mkfifo(file)
    assert "is not a file" in str(catalog.read_catalog(file).problems[0])


def test_depth_has_a_bound() -> None:
    assert read('{"models":' * 5_000).catalog is None
    deep = '{"models": {"a": ' + '{"x":' * 40 + "1" + "}" * 40 + "}}"
    assert "nested too deeply" in str(read(deep).problems[0])


def test_a_byte_order_mark_and_emoji_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_bytes(b"\xef\xbb\xbf" + '{"models": {"a": {"displayName": "\\ud83d\\ude80 ✨"}}}'.encode())
    found = catalog.read_catalog(file).catalog
    assert found is not None and found.label("a") == "🚀 ✨"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_whatever_json_holds_it_is_read_or_told(value: Any, indent: Any) -> None:
    text = json.dumps({"models": {"m": value}, "selectionRules": value}, indent=indent)
    done = read(text)
    assert done.catalog is not None or done.problems
    assert all(problem.line for problem in done.problems)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 2]))
def test_positions_are_those_of_the_text(value: dict[str, Any], indent: Any) -> None:
    from tui_agent.settings.tree import parse_json_tree

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    tree, problems = parse_json_tree("f", text)
    assert tree is not None and not problems
    assert json.dumps(tree.values) == json.dumps(value)
    lines = text.split("\n")
    for where, line in tree.lines.items():
        assert json.dumps(where[-1], ensure_ascii=False) in lines[line - 1]


# --- the first file -------------------------------------------------------------------------


def info(name: str, window: int | None = None, *capabilities: str) -> ModelInfo:
    return ModelInfo(name=name, context_window=window, capabilities=capabilities or None)


def made(*served: ModelInfo) -> Catalog:
    done = read(catalog.new_catalog_text(served))
    assert not done.problems and done.catalog is not None
    return done.catalog


def test_the_first_file_holds_the_three_models_and_those_of_the_server() -> None:
    found = made(info("gemma3:4b", 131_072, "completion", "vision"), info("llama3.1:8b"))
    assert list(found.models) == ["qwen2.5-coder:7b", "qwen2.5-coder:32b", "llama3.1:8b", "gemma3:4b"]
    gemma = found.entry("gemma3:4b")
    assert gemma.window is None  # the server may have it loaded with more than is asked for without knowing
    assert gemma.capabilities == ("completion", "vision")


def test_the_first_file_names_a_default_that_is_there() -> None:
    assert made().rules.default == "qwen2.5-coder:7b"
    assert made(info("a"), info("qwen2.5-coder:7b")).rules.default == "qwen2.5-coder:7b"
    assert made(info("nomic-embed-text"), info("a")).rules.default == "a"
    assert made(info("a"), info("deepseek-coder:6.7b")).rules.default == "deepseek-coder:6.7b"


def sized(name: str, parameters: float, *capabilities: str, loaded: int | None = None) -> ModelInfo:
    return ModelInfo(name=name, parameters=parameters, capabilities=capabilities or None, loaded_window=loaded)


def test_the_best_model_is_known_by_what_the_server_says_of_it() -> None:
    small, large = sized("a", 1.5, "completion", "tools"), sized("b", 14, "completion", "tools")
    deaf, huge = sized("c", 30, "completion"), sized("d", 120, "completion", "tools")
    numbers = sized("coder-vectors", 0.3, "embedding")
    assert catalog.best_model([small, large, deaf, huge, numbers]) == "b"
    assert catalog.best_model([huge, small]) == "a"
    assert catalog.best_model([large, sized("e", 3, "completion", loaded=8_192)]) == "e"
    assert catalog.best_model([numbers, deaf]) == "c"
    assert catalog.best_model([numbers], "coder-vectors") == ""
    assert catalog.best_model([sized("bge-m3", 0.5)]) == ""


def test_no_model_of_the_first_file_asks_for_more_than_a_modest_machine_has() -> None:
    assert all((entry.window or 0) <= 32_768 for entry in made(info("a", 1_000_000)).models.values())


def test_the_first_file_does_not_hold_a_server_to_the_window_it_was_started_with() -> None:
    vllm = ModelInfo(name="a", context_window=4_096, loaded_window=4_096)
    llama = ModelInfo(name="b", context_window=131_072, loaded_window=65_536)
    done = read(catalog.new_catalog_text((vllm, llama), "openai")).catalog
    assert done is not None
    assert [done.entry(name).window for name in "ab"] == [None, 131_072]


def test_a_file_that_is_there_is_never_written(tmp_path: Path) -> None:
    file = tmp_path / "new" / "models.json"
    assert catalog.create_models_file(file, [info("a")])
    assert catalog.read_catalog(file).catalog is not None
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("mine")
    assert not catalog.create_models_file(file, [info("b")])
    assert file.read_text() == "mine"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert not catalog.create_models_file(file)
    assert not (tmp_path / "elsewhere").exists()


def test_the_file_that_the_page_shows_is_read_without_a_complaint() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    found = read(page.partition("```json\n")[2].partition("```")[0])
    assert found.catalog and found.catalog.models and not found.problems
