from __future__ import annotations

import json
from typing import Any, NamedTuple

TOOLS = ["read_file", "write_file", "edit_file", "list_dir", "grep", "bash"]


class Reply(NamedTuple):
    id: str
    text: str
    calls: list[tuple[str, dict[str, Any]]]
    left: str | None = ""
    error: bool | None = None


LS: list[tuple[str, dict[str, Any]]] = [("bash", {"command": "ls"})]
PWD: list[tuple[str, dict[str, Any]]] = [("bash", {"command": "pwd"})]
CALL = '{"name": "bash", "arguments": {"command": "ls"}}'
CALL2 = '{"name": "bash", "arguments": {"command": "pwd"}}'
XML = f"<tool_call>{CALL}</tool_call>"
XML2 = f"<tool_call>{CALL2}</tool_call>"
DEFINITION = '{"name": "bash", "description": "Runs.", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}'
ENVELOPE = f'{{"tool_calls": [{CALL}]}}'


def write(content: str) -> str:
    return json.dumps({"name": "write_file", "arguments": {"path": "a", "content": content}})


def wrote(content: str) -> list[tuple[str, dict[str, Any]]]:
    return [("write_file", {"path": "a", "content": content})]


JSON_FORMS = [
    Reply("unknown names are left to the registry", '{"tool_calls": [{"name": "fly", "args": {}}]}', [("fly", {})]),
    Reply("one call instead of a list", f'{{"tool_calls": {CALL}}}', LS),
    Reply("tool_call", f'{{"tool_call": {CALL}}}', LS),
    Reply("function_call with text arguments", '{"function_call": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}', LS),
    Reply("in a fence", f"```json\n{ENVELOPE}\n```", LS),
    Reply("in a fence with text around", f"First:\n```json\n{ENVELOPE}\n```\nDone.", LS, "First:\nDone."),
    Reply("text behind", f"{ENVELOPE}\nThat is it.", LS, "That is it."),
    Reply("spread over lines", json.dumps(json.loads(ENVELOPE), indent=2), LS),
    Reply("empty list and answer", '{"tool_calls": [], "response": "Nothing to do."}', [], "Nothing to do.", False),
    Reply("empty answer and calls", f'{{"response": "", "tool_calls": [{CALL}]}}', LS, "", False),
    Reply("mixed", f'{{"response": "Done.", "tool_calls": [{CALL}]}}', [], None, True),
    Reply("no list", '{"tool_calls": "bash"}', [], None, True),
    Reply("a list of words", '{"tool_calls": ["bash"]}', [], None, True),
    Reply("arguments are a list", '{"tool_calls": [{"name": "bash", "arguments": ["ls"]}]}', [], None, True),
    Reply("arguments are prose", '{"tool_calls": [{"name": "bash", "arguments": "ls -la"}]}', [], None, True),
    Reply("one of two readable", f'{{"tool_calls": [{CALL}, {{"arguments": {{}}}}]}}', LS, "", True),
    Reply("no arguments", '{"tool_calls": [{"name": "list_dir"}]}', [("list_dir", {})]),
    Reply("null arguments", '{"tool_calls": [{"name": "list_dir", "arguments": null}]}', [("list_dir", {})]),
    Reply("answer with calls in it", json.dumps({"response": f"Write {XML} or {CALL}."}), [], f"Write {XML} or {CALL}."),
    Reply("answer over lines", '{"response": "one\\ntwo \\u00e9 \\"x\\""}', [], 'one two é "x"'),
    Reply("answer in a fence", '```json\n{"response": "All good."}\n```', [], "All good."),
    Reply("answer with raw line breaks", '{"response": "one\ntwo"}', [], "one two"),
    Reply("done false", '{"done": false, "response": "Still at it."}', [], "Still at it."),
    Reply("done without words", '{"done": true}', [], ""),
    Reply("answer quoted in prose", 'The API gives {"response": "ok"} then.', [], 'The API gives {"response": "ok"} then.'),
    Reply("two objects", f"{CALL}\n{CALL2}", LS + PWD),
    Reply("two objects with a comma", f"{CALL},\n{CALL2}", LS + PWD),
    Reply("a bare list", f"[{CALL}, {CALL2}]", LS + PWD),
    Reply("a bare list with one that is unknown", f'[{CALL}, {{"name": "fly", "arguments": {{}}}}]', [], None),
    Reply("OpenAI shape bare", '{"type": "function", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}', LS),
    Reply("function as name", '{"function": "bash", "parameters": {"command": "ls"}}', LS),
    Reply("arguments first", '{"arguments": {"command": "ls"}, "name": "bash"}', LS),
    Reply("with an id", '{"id": "call_1", "name": "bash", "arguments": {"command": "ls"}}', LS),
    Reply("with a thought", '{"thought": "look", "tool": "bash", "args": {"command": "ls"}}', LS),
    Reply("argument called tool", '{"name": "grep", "args": {"tool": "bash", "pattern": "x"}}', [("grep", {"tool": "bash", "pattern": "x"})]),
    Reply("top level arguments", '{"tool": "edit_file", "path": "a", "old": "b", "new": "c"}', [("edit_file", {"path": "a", "old": "b", "new": "c"})]),
    Reply("surplus brace", CALL + "}", LS),
    Reply("surplus closers", ENVELOPE + "]}", LS),
    Reply("empty arguments as text", '{"name": "list_dir", "arguments": ""}', [("list_dir", {})]),
    Reply("twice encoded", json.dumps({"name": "bash", "arguments": json.dumps(json.dumps({"command": "ls"}))}), LS),
    Reply("nested values", '{"name": "grep", "arguments": {"opts": {"name": "bash", "arguments": {}}, "n": [1, 2.5, true, null]}}',
          [("grep", {"opts": {"name": "bash", "arguments": {}}, "n": [1, 2.5, True, None]})]),
]  # fmt: skip

MARKUP = [
    Reply("two", f"{XML}\n{XML2}", LS + PWD),
    Reply("two in one tag", f"<tool_call>{CALL}\n{CALL2}</tool_call>", LS + PWD),
    Reply("a list in a tag", f"<tool_call>[{CALL}, {CALL2}]</tool_call>", LS + PWD),
    Reply("text between", f"One.\n{XML}\nTwo.\n{XML2}\nThree.", LS + PWD, "One. Two. Three."),
    Reply("unknown names are left to the registry", '<tool_call>{"name": "fly", "arguments": {}}</tool_call>', [("fly", {})]),
    Reply("upper case", f"<TOOL_CALL>{CALL}</TOOL_CALL>", LS),
    Reply("attributes", f'<tool_call id="1">{CALL}</tool_call>', LS),
    Reply("function_call", f"<function_call>{CALL}</function_call>", LS),
    Reply("tool_calls", f"<tool_calls>[{CALL}]</tool_calls>", LS),
    Reply("fence inside", f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>", LS),
    Reply("fence outside", f"```xml\n{XML}\n```", LS),
    Reply("fence outside, text around", f"So:\n```\n{XML}\n```\nWait.", LS, "So: Wait."),
    Reply("surplus brace", f"<tool_call>{CALL}}}</tool_call>", LS),
    Reply("two braces missing", '<tool_call>{"name": "bash", "arguments": {"command": "ls"</tool_call>', LS),
    Reply("closed by an opening tag", f"<tool_call>{CALL}<tool_call>{CALL2}", LS + PWD),
    Reply("no closing tag, text behind", f"<tool_call>{CALL}\nNow I wait.", LS, "Now I wait."),
    Reply("torn closing tag", f"<tool_call>{CALL}</tool_c", LS),
    Reply("closing tag alone", f"{CALL}\n</tool_call>", LS),
    Reply("wrong closing tag", f"<tool_call>{CALL}</function_call>", LS),
    Reply("name before the object", '<tool_call>bash{"command": "ls"}</tool_call>', LS),
    Reply("name in a line of its own", '<tool_call>bash\n{"command": "ls"}\n</tool_call>', LS),
    Reply("tags inside", "<tool_call><name>bash</name><arguments>{\"command\": \"ls\"}</arguments></tool_call>", LS),
    Reply("tags all the way", "<tool_call><name>bash</name><parameters><command>ls</command></parameters></tool_call>", LS),
    Reply("empty", "<tool_call></tool_call>", [], None, True),
    Reply("prose", "<tool_call>run ls please</tool_call>", [], None, True),
    Reply("a number", "<tool_call>{\"name\": 3}</tool_call>", [], None, True),
    Reply("no name", '<tool_call>{"arguments": {"command": "ls"}}</tool_call>', [], None, True),
    Reply("broken and good", f"<tool_call>oops</tool_call>\n{XML}", LS, "", True),
    Reply("unquoted value", '<tool_call>{"name": "bash", "arguments": {"command": ls}}</tool_call>', [], None, True),
    Reply("bare JSON beside markup is text", f"For example {CALL} is a call.\n{XML2}", PWD, f"For example {CALL} is a call."),
    Reply("mention in code", "Use `<tool_call>` and `</tool_call>`.", [], "Use `<tool_call>` and `</tool_call>`.", False),
    Reply("mention in prose", "Between <tool_call> and </tool_call> goes JSON.", [], "Between <tool_call> and </tool_call> goes JSON.", False),
    Reply("mention, then a call", f"I use <tool_call> now.\n{XML}", LS, "I use <tool_call> now."),
    Reply("example in code within a sentence", f"Write `{XML}` to call.", [], f"Write `{XML}` to call."),
    Reply("open, text", "The <tool_call> tag is {odd}.", [], "The <tool_call> tag is {odd}."),
    Reply("qwen", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>", LS),
    Reply("qwen twice", 2 * "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>\n", LS + LS),
    Reply("qwen without the outer tag", "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>", LS),
    Reply("qwen with markup in a value", "<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n<p>\n  {\"name\": \"bash\"}\n</p>\n</parameter>\n</function>",
          wrote('<p>\n  {"name": "bash"}\n</p>')),
    Reply("qwen cut", "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nhalf a fi", [], "", True),
    Reply("llama function", '<function=bash>{"command": "ls"}</function>', LS),
    Reply("invoke", '<invoke name="bash"><parameter name="command">ls</parameter></invoke>', LS),
    Reply("glm", "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>", LS),
    Reply("a tag around tags", f"<tool_calls>\n{XML}\n{XML2}\n</tool_calls>\nWait.", LS + PWD, "Wait."),
    Reply("a tag around tags in prose", "<tool_calls> holds <tool_call> tags.", [], "<tool_calls> holds <tool_call> tags."),
    Reply("minimax", '<minimax:tool_call>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>\n</minimax:tool_call>', LS),
    Reply("a description", f"<tool_call>{DEFINITION}</tool_call>", [], "", True),
    Reply("descriptions", f'<tools>[{{"type": "function", "function": {DEFINITION}}}]</tools>', [], "", True),
    Reply("half a name", '<tool_call>{"name": "bash"; "arguments": {"command": "ls"}}</tool_call>', [], "", True),
    Reply("a name that swallowed the rest", '<tool_call>{"name": "<tool_call>{"name": "' * 2, [], None, True),
    Reply("python inside", '<tool_call>bash(command="ls")</tool_call>', LS),
]  # fmt: skip

OTHER_MARKUP = [
    Reply("spaces", f"[TOOL_CALLS]   [{CALL}]", LS),
    Reply("an object", f"[TOOL_CALLS] {CALL}", LS),
    Reply("names and ARGS", '[TOOL_CALLS]bash[ARGS]{"command": "ls"}', LS),
    Reply("call id", '[TOOL_CALLS]bash[CALL_ID]abc123[ARGS]{"command": "ls"}', LS),
    Reply("two of them", '[TOOL_CALLS]bash{"command": "ls"}[TOOL_CALLS]bash{"command": "pwd"}', LS + PWD),
    Reply("no brackets at the end", '[TOOL_CALLS] [{"name": "bash", "arguments": {"command": "ls"', LS),
    Reply("text behind", f"[TOOL_CALLS] [{CALL}]\nWaiting.", LS, "Waiting."),
    Reply("string arguments", '[TOOL_CALLS] [{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}]', LS),
    Reply("unknown name", '[TOOL_CALLS]fly{"to": "x"}', [("fly", {"to": "x"})]),
    Reply("cut in the name", "[TOOL_CALLS]gre", [], None),
    Reply("mention", "The [TOOL_CALLS] token is special.", [], "The [TOOL_CALLS] token is special."),
    Reply("in a string", '[TOOL_CALLS]write_file{"path": "a", "content": "[TOOL_CALLS]bash{}"}', wrote("[TOOL_CALLS]bash{}")),
    Reply("closing", f"[TOOL_CALLS][{CALL}][/TOOL_CALLS]", LS),
    Reply("harmony", '<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>', LS),
    Reply("harmony with a thought", '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>', LS),
    Reply("harmony answer", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>All good.<|return|>", [], "All good."),
    Reply("python", '[bash(command="ls"), bash(command="pwd")]', LS + PWD),
    Reply("python with an unknown name", '[bash(command="ls"), fly(to="x")]', [], '[bash(command="ls"), fly(to="x")]'),
    Reply("python with an expression", '[bash(command=ls())]', [], "[bash(command=ls())]"),
    Reply("python tag", f"<|python_tag|>{CALL}", LS),
    Reply("command-r", f"<|START_ACTION|>[{CALL}]<|END_ACTION|>", LS),
    Reply("token at the end", f"{CALL}<|im_end|>", LS),
]  # fmt: skip

FENCES = [
    Reply("text around", f"Here:\n\n```json\n{CALL}\n```\n\nOK?", LS, "Here: OK?"),
    Reply("two objects", f"```json\n{CALL}\n{CALL2}\n```", LS + PWD),
    Reply("two fences", f"```json\n{CALL}\n```\n```json\n{CALL2}\n```", LS + PWD),
    Reply("a list", f"```json\n[{CALL}, {CALL2}]\n```", LS + PWD),
    Reply("tildes", f"~~~\n{CALL}\n~~~", LS),
    Reply("in one line", f"```{CALL}```", LS),
    Reply("other language", f"```tool_call\n{CALL}\n```", LS),
    Reply("unknown name", '```json\n{"name": "fly", "arguments": {}}\n```', [], '```json\n{"name": "fly", "arguments": {}}\n```'),
    Reply("brace missing", '```json\n{"name": "bash", "arguments": {"command": "ls"}\n```', LS),
    Reply("code", "```python\nprint({'name': 'bash'})\n```", [], "```python\nprint({'name': 'bash'})\n```"),
    Reply("code with a call in it", f"```python\nx = {CALL}\n```", [], f"```python\nx = {CALL}\n```"),
    Reply("documentation of the markup", f"```\nThe form is:\n{XML}\n```\nSo.", [], f"```\nThe form is:\n{XML}\n```\nSo."),
    Reply("code, then a call", f"```python\nx = 1\n```\n{CALL}", LS, "```python x = 1 ```"),
    Reply("fence in a string", "```json\n" + write("```py\nx\n```\n") + "\n```", wrote("```py\nx\n```\n")),
    Reply("code in one backtick", f"`{CALL}`", LS),
    Reply("example in a sentence", f"Use `{CALL}` for it.", [], f"Use `{CALL}` for it."),
    Reply("indented", f"1. Look:\n   ```json\n   {CALL}\n   ```", LS, "1. Look:"),
    Reply("unclosed code", "```python\nx = {'a': 1}\n", [], "```python x = {'a': 1}"),
    Reply("a description", f"```json\n{DEFINITION}\n```", [], f"```json {DEFINITION} ```", False),
    Reply("windows line ends", f"```json\r\n{CALL}\r\n```\r\n", LS),
]  # fmt: skip

SLOPPY = [
    Reply("trailing comma in a list", f'{{"tool_calls": [{CALL},]}}', LS),
    Reply("single quotes bare", "{'name': 'bash', 'arguments': {'command': 'ls'}}", LS),
    Reply("apostrophe", """{'name': 'bash', 'arguments': {'command': 'echo "it\\'s"'}}""", [("bash", {"command": 'echo "it\'s"'})]),
    Reply("unescaped apostrophe", "<tool_call>{'name': 'bash', 'arguments': {'command': 'echo it's'}}</tool_call>", [("bash", {"command": "echo it's"})]),
    Reply("bare keys", '{name: "bash", arguments: {command: "ls"}}', LS),
    Reply("Python words", "<tool_call>{'name': 'grep', 'arguments': {'a': True, 'b': False, 'c': None}}</tool_call>", [("grep", {"a": True, "b": False, "c": None})]),
    Reply("comments", '{"name": "bash", // the shell\n "arguments": {"command": "ls" /* all */}}', LS),
    Reply("missing comma", '{"name": "bash" "arguments": {"command": "ls"}}', LS),
    Reply("missing comma over lines", '{\n"name": "bash"\n"arguments": {"command": "ls"}\n}', LS),
    Reply("inner quotes", '<tool_call>{"name": "bash", "arguments": {"command": "echo "hi" there"}}</tool_call>', [("bash", {"command": 'echo "hi" there'})]),
    Reply("inner quotes at the end", '{"name": "bash", "arguments": {"command": "echo "hi""}}', [("bash", {"command": 'echo "hi"'})]),
    Reply("raw tab", '{"name": "bash", "arguments": {"command": "a\tb"}}', [("bash", {"command": "a\tb"})]),
    Reply("raw line breaks bare", '{"name": "write_file", "arguments": {"path": "a", "content": "x\n\ny\n"}}', wrote("x\n\ny\n")),
    Reply("a regular expression", r'{"name": "grep", "arguments": {"pattern": "\d+\.py\s"}}', [("grep", {"pattern": r"\d+\.py\s"})]),
    Reply("triple quotes", '{"name": "write_file", "arguments": {"path": "a", "content": """say "hi"\n"""}}', wrote('say "hi"\n')),
    Reply("NaN", '{"name": "grep", "arguments": {"n": NaN, "m": -Infinity}}', [("grep", {"n": None, "m": None})]),
    Reply("duplicate keys", '{"name": "bash", "arguments": {"command": "a", "command": "ls"}}', LS),
    Reply("a bracket of the wrong kind", '{"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}}', LS),
    Reply("braces in strings", '{"name": "bash", "arguments": {"command": "echo }}{{ ]["}}', [("bash", {"command": "echo }}{{ ]["})]),
    Reply("unicode", '{"name": "bash", "arguments": {"command": "echo \\u00e9 \\ud83d\\ude00 ü"}}', [("bash", {"command": "echo é 😀 ü"})]),
    Reply("half a surrogate", '{"name": "bash", "arguments": {"command": "x\\ud83d"}}', [("bash", {"command": "x\ufffd"})]),
    *(
        Reply(f"a quote too few or too many {number}", f'<tool_call>{{"name": "bash", "arguments": {{{inside}}}}}</tool_call>', [], "", True)
        for number, inside in enumerate([
            '"command": "ls, "cwd": "b"', '"command": "ls", "cwd: "b"', '"command": "ls", cwd": "b"', '"command": "ls", "cwd" "b"',
            '"command": "ls"", "cwd": "b"', '"command": "ls", ""cwd": "b"', '"command: "ls", "cwd": "b"', '"command": "echo "a"',
            '"command": "{"a": "b", "c": "d"}"',
        ])
    ),
    Reply("done beside arguments", '{"done": false, "tool": "bash", "command": "ls"}', LS),
    Reply("inner quotes in code", '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "x = {"a": 1}  # "b", c"}}</tool_call>', wrote('x = {"a": 1}  # "b", c')),
    Reply("a quote and a comma lost", '<tool_call>{"name": "bash", "arguments": {"command": "ls" cwd": "b"}}</tool_call>', [], "", True),
    Reply("joined strings", """{"name": "bash", "arguments": {"command": "a" + 'b'}}""", [], None, True),
    Reply("joined strings in code", '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "x = "a" + "b""}}</tool_call>', wrote('x = "a" + "b"')),
    Reply("half a number", '<tool_call>{"name": "grep", "arguments": {"n": 0x10}}</tool_call>', [], "", True),
    Reply("half a number, bare", '{"name": "grep", "arguments": {"n": 0x10}}', [], None, True),
    Reply("plus and underscore", '{name: "grep", arguments: {n: +1, m: 1_000}}', [("grep", {"n": 1, "m": 1000})]),
]  # fmt: skip

CUT = [
    Reply("in the key", '<tool_call>{"name": "bash", "argu', [], None, True),
    Reply("in the arguments' key", '<tool_call>{"name": "bash", "arguments": {"comm', [], None, True),
    Reply("in a string", '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "one\\ntw', [], "", True),
    Reply("in a string, bare", '{"name": "bash", "arguments": {"command": "rm -r', [], None, True),
    Reply("in a string, wrapped", '{"tool_calls": [{"name": "bash", "parameters": {"command": "rm -r', [], None, True),
    Reply("in the name, wrapped", '{"tool_calls": [{"name": "ba', [], None, True),
    Reply("in the name, bare", '{"name": "ba', [], None),
    Reply("after one of two", f'{{"tool_calls": [{CALL}, {{"name": "ba', LS, "", True),
    Reply("after one of two, tags", f'{XML}\n<tool_call>{{"name": "ba', LS, "", True),
    Reply("behind a key", '{"tool": "bash", "args": {"command": "ls", "cwd"', [], None, True),
    Reply("behind a key, wrapped", '<tool_call>{"name": "bash", "arguments": {"command": "ls", "cwd" ', [], None, True),
    Reply("only closers", '{"name": "bash", "arguments": {"command": "ls"', LS),
    Reply("after a comma", '<tool_call>{"name": "bash", "arguments": {"command": "ls",', LS),
    Reply("fence and brace", '```json\n{"name": "bash", "arguments": {"command": "ls"}', LS),
    Reply("in the fence", f"```json\n{CALL}\n``", LS),
    Reply("in the fence behind code", "```python\nx = 1\n``", [], "```python x = 1 ``"),
    Reply("in the opening tag", "Look:\n<tool_c", [], None),
    Reply("behind the opening tag", "Look:\n<tool_call>", [], None),
    Reply("answer with half an escape", '{"response": "a\\', [], "a"),
    Reply("done", '{"done": true, "response": "Fin', [], "Fin"),
    Reply("a call in a cut string", '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "' + XML.replace('"', '\\"') + "\n", [], "", True),
    Reply("raw markup in a cut string", '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "\n<tool_call>{\\"name\\": \\"bash\\"', [], None, True),
    Reply("brace missing, prose behind", '{"name": "bash", "arguments": {"command": "ls"}\n\nI wait for it.', LS, "I wait for it."),
]  # fmt: skip

NO_CALL = [
    Reply("empty", "", [], ""),
    Reply("code", "function f() { return {a: 1}; }", [], "function f() { return {a: 1}; }"),
    Reply("a call in code", 'run({name: "bash", arguments: {command: "ls"}});', [], 'run({name: "bash", arguments: {command: "ls"}});', False),
    Reply("a name in code", 'const t = { name: "bash" };', [], 'const t = { name: "bash" };', False),
    Reply("a description", f"The tool:\n{DEFINITION}", [], f"The tool: {DEFINITION}", False),
    Reply("css", "a { color: red; }", [], "a { color: red; }"),
    Reply("configuration", '{"name": "my-app", "version": "1.0", "scripts": {"test": "x"}}', [], '{"name": "my-app", "version": "1.0", "scripts": {"test": "x"}}'),
    Reply("a list of data", '[{"name": "Bob"}, {"name": "Eve"}]', [], '[{"name": "Bob"}, {"name": "Eve"}]'),
    Reply("call inside data", f'{{"example": {CALL}}}', [], f'{{"example": {CALL}}}'),
    Reply("call in a string of data", json.dumps({"text": CALL}), [], json.dumps({"text": CALL})),
    Reply("call in a list of data", f'{{"log": [{CALL}]}}', [], f'{{"log": [{CALL}]}}'),
    Reply("thought", f"<think>I could {XML} or {CALL}</think>No need.", [], "No need."),
    Reply("thought, then a call", f"<think>{CALL2}</think>\n{XML}", LS, ""),
    Reply("thinking", f"<thinking>\n{XML}\n</thinking>\nDone.", [], "Done."),
    Reply("thought never closed", f"<think>\nhm {XML}", [], ""),
    Reply("thought never opened", f"hm {CALL2}\n</think>\n\n{XML}", LS, None),
    Reply("thought in the middle", f"So. <think>{CALL}</think> Right.", [], "So. Right."),
    Reply("think as a word", "Write <think> into the template.", [], "Write <think> into the template."),
    Reply("think in code", "The `<think>` tag.", [], "The `<think>` tag."),
    Reply("link", "[foo](bar) and [1] and [ ] todo", [], "[foo](bar) and [1] and [ ] todo"),
    Reply("less than", "a < b and <b>bold</b> <- x", [], "a < b and <b>bold</b> <- x"),
    Reply("format string", "Use f'{name}' or {\"a\"}.", [], "Use f'{name}' or {\"a\"}."),
    Reply("dictionary", 'x = {"a": 1, "b": [2]}', [], 'x = {"a": 1, "b": [2]}'),
    Reply("shell", "for i in {1..3}; do echo ${i}; done", [], "for i in {1..3}; do echo ${i}; done"),
    Reply("template", "{{ user.name }} and {% if x %}", [], "{{ user.name }} and {% if x %}"),
    Reply("unknown top level", '{"tool": "hammer", "weight": 3}', [], '{"tool": "hammer", "weight": 3}'),
    Reply("signal", "Ready.\n[TASK_COMPLETE]", [], "Ready."),
    Reply("thought in an argument", f"<tool_call>{write('<think>x</think>')}</tool_call>", wrote("<think>x</think>")),
    Reply("fence in an argument", "<tool_call>" + write("```json\n" + CALL + "\n```") + "</tool_call>", wrote("```json\n" + CALL + "\n```")),
    Reply("signal in an argument", write("[TASK_COMPLETE]"), wrote("[TASK_COMPLETE]")),
    Reply("markup in an answer", json.dumps({"done": True, "response": XML}), [], XML),
    Reply("old text of an edit", json.dumps({"name": "edit_file", "arguments": {"path": "a", "old": XML, "new": ENVELOPE}}),
          [("edit_file", {"path": "a", "old": XML, "new": ENVELOPE})]),
]  # fmt: skip


def deepseek(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def kimi(name: str, arguments: str) -> str:
    return f"<|tool_call_begin|>{name}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def v31(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


def dsml(*invokes: str) -> str:
    return "\n".join(["<｜DSML｜function_calls>", *invokes, "</｜DSML｜function_calls>"])


def invoke(name: str, *parameters: tuple[str, str, str]) -> str:
    given = [
        f'<｜DSML｜parameter name="{key}" string="{text}">{value}</｜DSML｜parameter>'
        for key, text, value in parameters
    ]
    return "\n".join([f'<｜DSML｜invoke name="{name}">', *given, "</｜DSML｜invoke>"])


LS_ARGS, PWD_ARGS = '{"command": "ls"}', '{"command": "pwd"}'
CALLS_OPEN, CALLS_SHUT = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
KIMI_OPEN, KIMI_SHUT = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
V3 = CALLS_OPEN + deepseek("bash", LS_ARGS) + CALLS_SHUT
KIMI = KIMI_OPEN + kimi("functions.bash:0", LS_ARGS) + KIMI_SHUT
CODE = 'write_file(path="a", content="""```py\nx\n```\n""")'

TOKEN_FORMS = [
    Reply("deepseek", V3 + "<｜end▁of▁sentence｜>", LS),
    Reply("deepseek, two", CALLS_OPEN + deepseek("bash", LS_ARGS) + "\n" + deepseek("bash", PWD_ARGS) + CALLS_SHUT, LS + PWD),
    Reply("deepseek, text around", f"I look first.\n\n{V3}\nThen on.", LS, "I look first. Then on."),
    Reply("deepseek, text in the line", f"I look first. {V3}", LS, "I look first."),
    Reply("deepseek, no section", deepseek("bash", LS_ARGS), LS),
    Reply("deepseek, no call token", f"{CALLS_OPEN}function<｜tool▁sep｜>bash\n```json\n{LS_ARGS}\n```<｜tool▁call▁end｜>{CALLS_SHUT}", LS),
    Reply("deepseek, no end", f"{CALLS_OPEN}<｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{LS_ARGS}\n```", LS),
    Reply("deepseek, no fence", f"{CALLS_OPEN}<｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n{LS_ARGS}<｜tool▁call▁end｜>{CALLS_SHUT}", LS),
    Reply("deepseek, plain pipes", V3.replace("｜", "|"), LS),
    Reply("deepseek, plain blanks", V3.replace("｜", "|").replace("▁", "_"), LS),
    Reply("deepseek, escaped blanks", V3.replace("▁", "\\_"), LS),
    Reply("deepseek, real blanks", V3.replace("▁", " "), LS),
    Reply("deepseek, fence in a string", CALLS_OPEN + deepseek("write_file", json.dumps({"path": "a", "content": "```json\n{}\n```\n"})) + CALLS_SHUT, wrote("```json\n{}\n```\n")),
    Reply("deepseek, token in a string", CALLS_OPEN + deepseek("write_file", json.dumps({"path": "a", "content": V3}, ensure_ascii=False)) + CALLS_SHUT, wrote(V3)),
    Reply("deepseek, unknown name", CALLS_OPEN + deepseek("fly", "{}") + CALLS_SHUT, [("fly", {})]),
    Reply("deepseek, slips", CALLS_OPEN + deepseek("bash", "{'command': 'ls',}") + CALLS_SHUT, LS),
    Reply("deepseek, cut", f'{CALLS_OPEN}<｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{{"command": "l', [], "", True),
    Reply("deepseek, cut in the name", f"{CALLS_OPEN}<｜tool▁call▁begin｜>function<｜tool▁sep｜>ba", [], None, True),
    Reply("deepseek, behind a thought", f"<think>Hm.</think>{V3}", LS),
    Reply("deepseek 3.1", CALLS_OPEN + v31("bash", LS_ARGS) + v31("bash", PWD_ARGS) + CALLS_SHUT, LS + PWD),
    Reply("deepseek 3.1, behind a thought without beginning", f"Hm.</think>{CALLS_OPEN}{v31('bash', LS_ARGS)}{CALLS_SHUT}", LS, None),
    Reply("deepseek 3.1, no arguments", CALLS_OPEN + v31("list_dir", "") + CALLS_SHUT, [("list_dir", {})]),
    Reply("deepseek 3.2", dsml(invoke("bash", ("command", "true", "ls"))), LS),
    Reply("deepseek 3.2, two", "So:\n\n" + dsml(invoke("bash", ("command", "true", "ls")), invoke("bash", ("command", "true", "pwd"))), LS + PWD, "So:"),
    Reply("deepseek 3.2, types", dsml(invoke("grep", ("pattern", "true", "5"), ("n", "false", "5"), ("deep", "false", "true"))), [("grep", {"pattern": "5", "n": 5, "deep": True})]),
    Reply("deepseek 3.2, JSON", dsml(f'<｜DSML｜invoke name="bash">\n{LS_ARGS}\n</｜DSML｜invoke>'), LS),
    Reply("deepseek 3.2, nothing", dsml(invoke("list_dir")), [("list_dir", {})]),
    Reply("deepseek 3.2, cut", '<｜DSML｜function_calls>\n<｜DSML｜invoke name="bash">\n<｜DSML｜parameter name="command" string="true">rm -r', [], "", True),
    Reply("kimi", KIMI, LS),
    Reply("kimi, two", KIMI_OPEN + kimi("functions.bash:0", LS_ARGS) + kimi("functions.bash:1", PWD_ARGS) + KIMI_SHUT, LS + PWD),
    Reply("kimi, text before", f"I look.{KIMI}", LS, "I look."),
    Reply("kimi, blanks", f"{KIMI_OPEN}\n<|tool_call_begin|> functions.bash:0 <|tool_call_argument_begin|> {LS_ARGS} <|tool_call_end|>\n{KIMI_SHUT}", LS),
    Reply("kimi, bare name", KIMI_OPEN + kimi("bash", LS_ARGS) + KIMI_SHUT, LS),
    Reply("kimi, singular section", KIMI.replace("calls_section", "call_section"), LS),
    Reply("kimi, no section", kimi("functions.bash:12", LS_ARGS), LS),
    Reply("kimi, unknown name", KIMI_OPEN + kimi("functions.fly:3", "{}") + KIMI_SHUT, [("fly", {})]),
    Reply("kimi, cut", f'{KIMI_OPEN}<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{{"command": "rm', [], "", True),
    Reply("kimi, no JSON", KIMI_OPEN + kimi("functions.bash:0", "ls -la") + KIMI_SHUT, [], "", True),
    Reply("deepseek, no JSON", CALLS_OPEN + v31("bash", "ls -la") + CALLS_SHUT, [], "", True),
    Reply("an empty section", f"{KIMI_OPEN}{KIMI_SHUT}Hello.", [], "Hello.", False),
    Reply("kimi in code", f"The form is `{KIMI}`.", [], f"The form is `{KIMI}`."),
    Reply("token in code", "A call begins with `<｜tool▁call▁begin｜>`.", [], "A call begins with `<｜tool▁call▁begin｜>`."),
    Reply("token in prose", "The <|tool_call_begin|> token opens it.", [], "The <|tool_call_begin|> token opens it."),
    Reply("token of another kind", "It is <|foo|> here.", [], "It is <|foo|> here."),
    Reply("pipes", "a <| b |> c <｜ d", [], "a <| b |> c <｜ d"),
    Reply("harmony name", '{"name": "bash<|channel|>commentary", "arguments": {"command": "ls"}}', LS),
    Reply("harmony name in a tag", '<tool_call>{"name": "functions.bash<|channel|>json", "arguments": {"command": "ls"}}</tool_call>', LS),
]  # fmt: skip

TOOL_CODE = [
    Reply("one", '```tool_code\nbash(command="ls")\n```', LS),
    Reply("printed", '```tool_code\nprint(bash(command="ls"))\n```', LS),
    Reply("default_api", '```tool_code\nprint(default_api.bash(command="ls"))\n```', LS),
    Reply("two", "```tool_code\nbash(command='ls')\nbash(command='pwd')\n```", LS + PWD),
    Reply("a list", '```tool_code\n[bash(command="ls"), bash(command="pwd")]\n```', LS + PWD),
    Reply("kept and printed", '```tool_code\nx = bash(command="ls")\nprint(x)\n```', LS),
    Reply("over lines, comments", '```tool_code\n# look\nbash(\n    command="ls",  # all\n)\n```', LS),
    Reply("text around", 'First.\n```tool_code\nbash(command="ls")\n```\nThen.', LS, "First. Then."),
    Reply("two fences", '```tool_code\nbash(command="ls")\n```\n\n```tool_code\nbash(command="pwd")\n```', LS + PWD),
    Reply("fence in a string", f"```tool_code\n{CODE}\n```", wrote("```py\nx\n```\n")),
    Reply("no end", '```tool_code\nbash(command="ls")', LS),
    Reply("half an end", '```tool_code\nbash(command="ls")\n``', LS),
    Reply("in one line", '```tool_code bash(command="ls")```', LS),
    Reply("a regular expression", "```tool_code\ngrep(pattern='\\d+\\.py')\n```", [("grep", {"pattern": "\\d+\\.py"})]),
    Reply("values", '```tool_code\ngrep(a=True, b=None, c=-1.5, d=["x", {"y": false}])\n```', [("grep", {"a": True, "b": None, "c": -1.5, "d": ["x", {"y": False}]})]),
    Reply("unpacked", '```tool_code\nbash(**{"command": "ls"})\n```', LS),
    Reply("unknown name", '```tool_code\nfly(to="x")\n```', [("fly", {"to": "x"})]),
    Reply("the fence of another form", '```tool_call\nbash(command="ls")\n```', LS),
    Reply("JSON", f"```tool_code\n{CALL}\n```", LS),
    Reply("as a tag", '<tool_code>\nprint(bash(command="ls"))\n</tool_code>', LS),
    Reply("no literal", '```tool_code\nbash(command=open("x").read())\n```', [], "", True),
    Reply("position without a shape", '```tool_code\nbash("ls")\n```', [], "", True),
    Reply("a program", '```tool_code\nfor x in range(3):\n    bash(command="ls")\n```', [], "", True),
    Reply("cut", '```tool_code\nwrite_file(path="a", content="half', [], "", True),
    Reply("mention", "Use ```tool_code fences for it.", [], "Use ```tool_code fences for it.", False),
    Reply("nothing in it", "```tool_code\n```\nHm.", [], "```tool_code ``` Hm."),
    Reply("other code", '```python\nbash(command="ls")\n```', [], '```python bash(command="ls") ```'),
]  # fmt: skip

OUT = "<tool_response>\na.py b.py\n</tool_response>"
INVENTED = [
    Reply("behind a call", f"{XML}\n{OUT}\nThere are two files.", LS),
    Reply("glued to a call", f"{XML}{OUT}There are two files.", LS),
    Reply("text before", f"I look.\n{XML}\n{OUT}\nTwo files.", LS, "I look."),
    Reply("calls behind it", f"{XML}\n{OUT}\n{XML2}", LS),
    Reply("two of them", f"{XML}\n{OUT}\n{XML2}\n{OUT}\nDone. [TASK_COMPLETE]", LS),
    Reply("never closed", f"{XML}\n<tool_response>\na.py b.py\n\nTwo files.", LS),
    Reply("alone", f"{OUT}\nThere are two files.", [], "", True),
    Reply("text and a result", f"I look.\n{OUT}\nTwo files.", [], "I look.", True),
    Reply("text and a result in a line", "I look. <tool_response>a.py</tool_response> One file.", [], "I look.", True),
    Reply("JSON in it", f'{XML}\n<tool_response>{{"name": "bash", "content": "a"}}</tool_response>\nOne.', LS),
    Reply("a call in it", f"{XML}\n<tool_response>\n{XML2}\n</tool_response>", LS),
    Reply("attributes", f'{XML}\n<tool_result name="bash">\na\n</tool_result>\nOne.', LS),
    Reply("our own", f"{XML}\n<agent_control>\n<tool_result>a</tool_result>\n</agent_control>\nOne.", LS),
    *(
        Reply(tag, f"{XML}\n<{tag}>\na\n</{tag}>\nOne file.", LS)
        for tag in ["tool_result", "tool_results", "function_results", "function_result", "function_response",
                    "tool_output", "tool_call_result", "TOOL_RESPONSE"]
    ),
    Reply("ChatML", f"{XML}<|im_end|>\n<|im_start|>user\n{OUT}<|im_end|>\n<|im_start|>assistant\nTwo files.<|im_end|>", LS),
    Reply("ChatML in words", f"{XML}\n<|im_start|>user\nTool result: a.py<|im_end|>\n<|im_start|>assistant\nOne file.", LS),
    Reply("ChatML, no call", "I look.<|im_end|>\n<|im_start|>user\nTool result: a.py<|im_end|>\n<|im_start|>assistant\nOne file.", [], "I look.", True),
    Reply("ChatML, tool", f"{XML}<|im_end|>\n<|im_start|>tool\na.py<|im_end|>\nOne.", LS),
    Reply("Llama 3", f"{XML}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\na.py<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nOne.", LS),
    Reply("Gemma", '```tool_code\nbash(command="ls")\n```<end_of_turn>\n<start_of_turn>user\n```tool_output\na.py\n```\n<start_of_turn>model\nOne.', LS),
    Reply("Gemma's fence", '```tool_code\nbash(command="ls")\n```\n```tool_outputs\na.py\n```\nOne.', LS),
    Reply("Mistral", f"[TOOL_CALLS][{CALL}]</s>[TOOL_RESULTS] a.py[/TOOL_RESULTS] One.", LS),
    Reply("Mistral, blanks", f"[TOOL_CALLS][{CALL}] [TOOL_RESULTS] a.py [/TOOL_RESULTS] One.", LS),
    Reply("in the line of a call", f"{XML} <tool_response> a.py </tool_response> One.", LS),
    Reply("DeepSeek", f"{V3}<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>a.py<｜tool▁output▁end｜><｜tool▁outputs▁end｜>One.", LS),
    Reply("DeepSeek's user", "All good.<｜end▁of▁sentence｜><｜User｜>And now?<｜Assistant｜>More.", [], "All good.", False),
    Reply("Kimi", f"{KIMI}<|im_end|><|im_system|>bash<|im_middle|>a.py<|im_end|>", LS),
    Reply("GLM", f"{XML}\n<|observation|>\na.py\n<|assistant|>\nOne.", LS),
    Reply("harmony", '<|channel|>commentary to=functions.bash<|message|>{"command": "ls"}<|call|><|start|>functions.bash to=assistant<|channel|>commentary<|message|>a.py<|end|><|start|>assistant<|channel|>final<|message|>One.', LS),
    Reply("a turn of the user", "All good.<|im_end|>\n<|im_start|>user\nThanks!<|im_end|>\n<|im_start|>assistant\nMy pleasure.", [], "All good.", False),
    Reply("its own turn", "<|im_start|>assistant\nAll good.<|im_end|>", [], "All good.", False),
    Reply("its own turn, Llama 3", "<|start_header_id|>assistant<|end_header_id|>\n\nAll good.", [], "All good.", False),
    Reply("mention in code", "Results come in `<tool_response>` tags, as `<|im_start|>user` says.", [], "Results come in `<tool_response>` tags, as `<|im_start|>user` says.", False),
    Reply("mention in prose", "Between <tool_response> and </tool_response> stands it, after <|im_start|> and a role.", [], "Between <tool_response> and </tool_response> stands it, after <|im_start|> and a role.", False),
    Reply("mention at the beginning of a line", "<tool_response> is the tag of results.", [], "<tool_response> is the tag of results.", False),
    Reply("in a fence", f"So:\n```xml\n{OUT}\n```\nGot it?", [], f"So: ```xml {OUT} ``` Got it?".replace(chr(10), " "), False),
    Reply("in a string", write(OUT), wrote(OUT)),
    Reply("an agent's tag", "<agent_config>\na\n</agent_config>", [], "<agent_config> a </agent_config>", False),
    Reply("another tag", "<tool_box>\na\n</tool_box>", [], "<tool_box> a </tool_box>", False),
]  # fmt: skip

LONE = [
    Reply("glued", "The user asks for the time.</think>It is noon.", [], "It is noon."),
    Reply("before a blank", "The user asks. </think> It is noon.", [], "It is noon."),
    Reply("before a call", f"I must look.</think>{XML}", LS, ""),
    Reply("in lines", "The user asks.\n</think>\n\nIt is noon.", [], "It is noon."),
    Reply("in other brackets", "The user asks.[/THINK]It is noon.", [], "It is noon."),
    Reply("mention", "Use </think> to end it, or `</think>`, or \"</think>\".", [], "Use </think> to end it, or `</think>`, or \"</think>\"."),
]  # fmt: skip

REPLIES = {
    f"{group}: {reply.id}": reply
    for group, replies in {
        "json": JSON_FORMS, "markup": MARKUP, "other": OTHER_MARKUP, "fence": FENCES,
        "sloppy": SLOPPY, "cut": CUT, "none": NO_CALL,
        "tokens": TOKEN_FORMS, "tool_code": TOOL_CODE, "invented": INVENTED, "lone": LONE,
    }.items()
    for reply in replies
}  # fmt: skip
