from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.models.local.templates import MAX_TEMPLATE, check_template, template_capabilities

QWEN = """{%- if tools %}{{- '<|im_start|>system\\n' }}{%- if messages[0]['role'] == 'system' %}
{{- messages[0]['content'] + '\\n\\n' }}{%- endif %}{%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
{%- endif %}{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}
{%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>')) %}
{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{%- endif %}{%- endfor %}
{%- for message in messages %}{%- if '</think>' in message.content %}
{%- set reasoning_content = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- endif %}
{%- if (loop.index0 > 0) and (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{%- if enable_thinking is defined and enable_thinking is false %}<think>{%- endif %}{%- endif %}"""
LLAMA = """{{- bos_token }}{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- for message in messages %}{%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- elif 'tool_calls' in message %}{%- if not message.tool_calls|length == 1 %}{{- raise_exception("One call at a time!") }}
{%- endif %}{%- set tool_call = message.tool_calls[0].function %}{%- for arg_name, arg_val in tool_call.arguments | items %}
{{- arg_name + '="' + arg_val + '"' }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}{%- endif %}{%- endfor %}"""
MISTRAL = """{%- set loop_messages = messages[1:] %}{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}{%- set ns.index = 0 %}{%- for message in loop_messages %}
{%- if (message["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("roles must alternate") }}{%- endif %}
{%- set ns.index = ns.index + 1 %}{%- if message.tool_calls is defined and message.tool_calls is not none %}
{{- "[TOOL_CALLS] [" }}{%- set out = message.tool_calls[0].function|tojson %}{{- out[:-1] }}{{- ', "id": "' + message.tool_calls[0].id[-9:] + '"}' }}
{%- endif %}{%- endfor %}"""
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' %}
{% endif %}{% for message in messages %}{{ '<start_of_turn>' + (message['role'] if message['role'] != 'assistant' else 'model') + '\n' }}
{% if message['content'] is iterable %}{% for item in message['content'] %}{% if item['type'] == 'text' %}{{ item['text'] | trim }}
{% endif %}{% endfor %}{% endif %}{% endfor %}"""
DEEPSEEK = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{% set ns = namespace(is_first=false, is_tool=false, system_prompt='') %}{{ bos_token }}
{% for message in messages %}{% if message['role'] == 'assistant' and message['content'] is not none %}
{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
{{ '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}"""
GPT_OSS = """{%- macro render_type(spec, required, is_nullable=false) -%}{%- if spec.type == "array" -%}
{{- render_type(spec['items'], required) + "[]" -}}{%- elif spec.type is iterable and spec.type is not mapping -%}
{{- spec.type | join(" | ") -}}{%- else -%}any{%- endif -%}{%- endmacro -%}
{%- macro tool_namespace(namespace_name, tools) -%}{%- for tool in tools %}{{- "type " + tool.name + " = (_: {\\n" }}{%- endfor %}{%- endmacro -%}
{%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}{{- "Reasoning: " + reasoning_effort }}
{%- for message in messages -%}{%- if loop.last and "thinking" in message %}{{- "<|channel|>analysis<|message|>" + message.thinking }}
{%- break %}{%- endif %}{%- endfor -%}{%- if tools -%}{{- tool_namespace("functions", tools) }}{%- endif -%}"""
OTHERS = """{% generation %}{{ message.content }}{% endgeneration %}{% do messages.append(1) %}{% for _ in range(3) %}{% continue %}{% endfor %}
{% for i in range(messages|length - 1, -1, -1) %}{{ '_' * 80 }}{{ messages[i].content | replace('__', '') }}{% endfor %}
{{ parts | map('replace', '_', ' ') | join('_') }}
{{ tools | map(attribute='function') | map(attribute='name') | join(', ') }}{% call(x) f() %}{% endcall %}"""


@pytest.mark.parametrize("template", ["", "plain", QWEN, LLAMA, MISTRAL, GEMMA, DEEPSEEK, GPT_OSS, OTHERS])
def test_real_templates_are_accepted(template: str) -> None:
    assert check_template(template) == ""


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}",
        "{{ x._private }}",
        "{{ x['__class__'] }}",
        "{{ x['_a'] }}",
        "{{ x['\\x5f\\x5fclass\\x5f\\x5f'] }}",
        "{{ x['__cla' ~ 'ss__'] }}",
        "{{ x | attr('__class__') }}",
        "{{ x | attr('_' ~ '_class__') }}",
        "{{ x | attr(name) }}",
        "{{ x | map(attribute='a.__class__') | list }}",
        "{{ x | groupby('_a') }}",
        "{{ x | join(', ', '_a') }}",
        "{{ x | map('attr', '_a') | list }}",
        "{% set a = '__globals__' %}{{ x[a] }}",
        "{% if a %}{% for b in c.__dict__ %}{% endfor %}{% endif %}",
        "{% macro f(a=b.__init__) %}{% endmacro %}",
        "{% generation %}{{ x.__class__ }}{% endgeneration %}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ '%s'.__mod__(1) }}",
    ],
)
def test_python_internals_are_refused(template: str) -> None:
    assert check_template(template).startswith("asks for Python internals")


@pytest.mark.parametrize("name", ["include 'a'", "import 'a' as b", "from 'a' import b", "extends 'a'"])
def test_other_files_are_refused(name: str) -> None:
    assert check_template(f"{{% {name} %}}") == "loads other files"


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 1000000000 }}",
        "{{ 'a' * 99999 * 99999 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% for i in range(10000000000) %}{% endfor %}",
        "{{ 'a' | center(2000000000) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(n) %}{% for j in range(n) %}{% for k in range(n) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for i in range(9999 * 9999) %}{% endfor %}",
    ],
)
def test_endless_work_is_refused(template: str) -> None:
    assert check_template(template) in ("computes with huge numbers", "may never end")


@pytest.mark.parametrize(
    "template",
    [
        "{% if %}",
        "{{ x",
        "{% for a in b %}",
        "{% unknown_statement %}",
        "{{ " + "(" * 5000 + ")" * 5000 + " }}",
        "{{ " + "9" * 5000 + " }}",
        "{{ '\\x' }}",
    ],
)
def test_what_no_engine_reads_is_refused(template: str) -> None:
    assert check_template(template).startswith("is not valid (")


def test_long_templates_are_refused() -> None:
    assert check_template("x" * MAX_TEMPLATE) == ""
    assert "characters" in check_template("x" * (MAX_TEMPLATE + 1))


def test_deeply_nested_templates_end() -> None:
    assert check_template("{{ a" + ".b" * 50_000 + " }}") == ""


def test_capabilities() -> None:
    assert template_capabilities(QWEN) == ("tools", "thinking")
    assert template_capabilities(GPT_OSS) == ("tools", "thinking")
    assert template_capabilities(LLAMA) == ("tools",)
    assert template_capabilities(GEMMA) == ()


@given(st.one_of(st.text(), st.text(alphabet="{}%-_'\"()[]|. abrange12*~forinset\\")))
def test_any_text_is_judged(text: str) -> None:
    reason = check_template(text)
    assert isinstance(reason, str)
    if not reason:
        template_capabilities(text)
