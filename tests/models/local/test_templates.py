from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.models.local.templates import MAX_TEMPLATE, check_template, template_capabilities, template_switches

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
GPT_OSS_TYPES = """{%- macro typed(spec, required, is_nullable=false) -%}{%- if spec.type == "array" -%}
{%- if spec['items']['type'] == "string" -%}{{- "string[]" }}{%- else -%}{%- set inner = typed(spec['items'], required) -%}
{%- if inner == "object | object" or inner|length > 50 -%}any[]{%- else -%}{{- inner + "[]" }}{%- endif -%}{%- endif -%}
{%- elif spec.oneOf -%}{%- set has_object = false -%}{%- for variant in spec.oneOf -%}{%- if variant.type == "object" -%}
{%- set has_object = true -%}{%- endif -%}{%- endfor -%}{%- for variant in spec.oneOf -%}{{- typed(variant, required) -}}
{%- if not loop.last %}{{- " | " }}{% endif -%}{%- endfor -%}{%- elif spec.type == "object" -%}{{- "{" }}
{%- for name, field in spec.properties.items() -%}{{- name -}}{{ typed(field, spec.required or []) }}{%- endfor -%}{{- "}" }}
{%- endif -%}{%- endmacro -%}{%- macro all_tools(tools) -%}{%- for tool in tools %}{%- set tool = tool.function %}
{%- for name, spec in tool.parameters.properties.items() %}{{- typed(spec, tool.parameters.required or []) }}{%- endfor %}
{%- endfor %}{%- endmacro -%}{{ 'Tools:\\n' + all_tools(tools) }}"""
GEMMA_4 = """{%- macro fields(properties, required) -%}{%- set ns = namespace(found=false) -%}
{%- for key, value in properties | dictsort -%}{%- if ns.found %},{% endif -%}{%- set ns.found = true -%}
{%- if value['type'] | upper == 'OBJECT' -%}{%- if value['properties'] is mapping -%}
{{- fields(value['properties'], value['required'] | default([])) -}}{%- elif value is mapping -%}
{{- fields(value, value['required'] | default([])) -}}{%- endif -%}{%- elif value['items'] is mapping -%}
{%- for item_key, item in value['items'] | dictsort -%}{%- if item_key == 'properties' and item is mapping -%}
{{- fields(item, value['items']['required'] | default([])) -}}{%- else -%}{{ item_key }}:{{ plain(item) }}{%- endif -%}
{%- endfor -%}{%- endif -%}{%- endfor -%}{%- endmacro -%}{%- macro plain(argument, escape=True) -%}
{%- if argument is string -%}{{- '"' + argument + '"' -}}{%- elif argument is mapping -%}
{%- for key, value in argument | dictsort -%}{{ key }}:{{- plain(value, escape=escape) -}}{%- endfor -%}
{%- elif argument is sequence -%}{%- for item in argument -%}{{- plain(item, escape=escape) -}}{%- endfor -%}{%- endif -%}
{%- endmacro -%}{%- macro stripped(text) -%}{%- set ns = namespace(result='') -%}{%- for part in text.split('<channel|>') -%}
{%- if '<|channel>' in part -%}{%- set ns.result = ns.result + part.split('<|channel>')[0] -%}{%- else -%}
{%- set ns.result = ns.result + part -%}{%- endif -%}{%- endfor -%}{{- ns.result | trim -}}{%- endmacro -%}
{%- for message in messages -%}{%- for call in message['tool_calls'] -%}{%- for key, value in call['arguments'] | dictsort -%}
{{- key -}}:{{- plain(value, escape=False) -}}{%- endfor -%}{%- endfor -%}{{- stripped(message['content']) -}}{%- endfor -%}
{{ fields(tools[0]['parameters']['properties'], []) }}"""
GIGACHAT = """{%- macro typed(schema, indent="", factor=2) -%}{%- set ty = schema.get("type") -%}{%- if ty == "object" -%}
{%- set extra = none -%}{%- if schema.additionalProperties == true -%}{%- set extra = {'type': 'any'} -%}
{%- elif schema.additionalProperties is mapping -%}{%- set extra = schema.additionalProperties -%}{%- endif -%}
{%- for key, val in schema.get("properties", {}).items() -%}{%- for line in val['description'].split('\\n') -%}
{{- indent + '// ' + line + '\\n' -}}{%- endfor -%}{%- set text = typed(val, indent + (' ' * factor), factor) -%}
{{- indent + key + ': ' + text + ',' -}}{%- endfor -%}{%- if extra is not none -%}
{%- set text = typed(extra, indent + (' ' * factor), factor) -%}{{- indent + text -}}{%- endif -%}{{- indent[:-factor] + '}' -}}
{%- elif ty == "string" -%}{%- set ns = namespace(enum = []) -%}{%- for en in schema['enum'] -%}
{%- set ns.enum = ns.enum + ['"' ~ en ~ '"'] -%}{%- endfor -%}{{- ns.enum | join(' | ') -}}{%- elif ty == "array" -%}
{{- typed(schema['items'], indent, factor) + '[]' -}}{%- endif -%}{%- endmacro -%}{%- macro listed(name, tools) -%}
{%- set ns = namespace(sections = [name ~ ' {']) -%}{%- for tool in tools -%}{%- set lines = namespace(all=[]) -%}
{%- for line in tool['description'].split('\\n') -%}{%- set lines.all = lines.all + ['// ' ~ line] -%}{%- endfor -%}
{%- set body = 'type ' ~ tool.name ~ typed(tool.parameters, "  ") -%}{%- set body = body ~ ';' -%}
{%- set lines.all = lines.all + [body] -%}{%- set ns.sections = ns.sections + [lines.all | join('\\n')] -%}{%- endfor -%}
{{- ns.sections | join('\\n') -}}{%- endmacro -%}{{ listed('functions', tools) + "\\n" }}"""
KIMI = """{%- macro escaped(value) -%}{{- value|string|replace('&', '&amp;')|replace('"', '&quot;') -}}{%- endmacro -%}
{%- macro opened(tag, attrs=[]) -%}{{- '<' + tag -}}{%- for attr in attrs -%}{{- attr[0] + '=' -}}{{- escaped(attr[1]) -}}
{%- endfor -%}{%- endmacro -%}{%- macro shown(text, state) -%}{%- set text = text|string -%}
{%- for part in text.split('<image>') -%}{{- part -}}{%- set state.image = state.image + 1 -%}{%- endfor -%}{%- endmacro -%}
{%- macro content(value, state) -%}{%- if value is string -%}{{- shown(value, state) -}}{%- else -%}{%- for part in value -%}
{{- shown(part.text, state) -}}{%- endfor -%}{%- endif -%}{%- endmacro -%}
{%- macro sorted(value) -%}{%- if value is mapping -%}{%- for key, item in value|dictsort -%}
{{- key|tojson(ensure_ascii=false) -}}{{- ':' -}}{{- sorted(item) -}}{%- endfor -%}{%- elif value is string -%}
{{- value|tojson -}}{%- else -%}{%- for item in value -%}{{- sorted(item) -}}{%- endfor -%}{%- endif -%}{%- endmacro -%}
{%- set state = namespace(image=0, calls=none, tool=0) -%}{{- sorted(tools) -}}{%- for message in messages -%}
{%- set attrs = [('role', message.role)] -%}{%- if message.name -%}{%- set attrs = attrs + [('name', message.name)] -%}{%- endif -%}
{{- opened('message', attrs) -}}{%- if message.role == 'tool' -%}{%- set run = namespace(found=[], count=0) -%}
{%- for candidate in messages[loop.index0:] -%}{%- if candidate.role != 'tool' -%}{%- break -%}{%- endif -%}
{%- set run.found = run.found + [candidate] -%}{%- for call in state.calls -%}{%- if call.get('id')|string == 'a' -%}
{%- set run.count = run.count + 1 -%}{%- endif -%}{%- endfor -%}{%- endfor -%}{%- for call in state.calls -%}
{%- for one in run.found -%}{%- set state.tool = state.tool + 1 -%}{{- content(one.get('content'), state) -}}{%- endfor -%}
{%- endfor -%}{%- else -%}{{- content(message.get('content'), state) -}}{%- endif -%}{%- endfor -%}"""
GLM = """{%- macro visible(content) -%}{%- if content is string -%}{{- content }}{%- elif content is iterable -%}
{%- for item in content -%}{{- item.text }}{%- endfor -%}{%- endif -%}{%- endmacro -%}{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{% set ns.last = loop.index0 -%}{%- endif %}{%- endfor %}{% for m in messages %}
{{ visible(m.content) }}{{- '/nothink' if not enable_thinking and not visible(m.content).endswith("/nothink") else '' -}}
{%- set content = visible(m.content) %}{%- if '</think>' in content %}
{%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{% for tc in m.tool_calls %}
{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}{% for k, v in tc.arguments.items() %}{{ v | tojson if v is not string else v }}
{% endfor %}{% endfor %}{%- endfor -%}"""
COHERE = """{%- macro position(messages, id) %}{%- set counter = namespace(value=0) %}{%- for msg in messages %}
{%- for call in msg.tool_calls %}{%- set counter.value = counter.value + 1 %}{%- endfor %}{%- endfor %}{{ counter.value }}{%- endmacro %}
{%- set seen = namespace(value=[]) %}{%- for message in messages %}{{ position(messages, message.id) }}
{%- for msg in messages[loop.index0 + 1:] %}{{ position(messages, msg.id) }}
{%- set seen.value = seen.value + [msg.tool_call_id] %}{%- endfor %}{%- endfor %}"""
DEEPSEEK_3 = """{%- if not tools -%}{%- set tools = namespace(value=[]) -%}{%- for message in messages -%}{%- for tool in message.tools -%}
{%- set _ = tools.value.append(tool.function if tool.get('function') else tool) -%}{%- endfor -%}{%- endfor -%}
{%- set tools = tools.value -%}{%- endif -%}{%- set start = 1 if has_system else 0 -%}{%- for message in messages[start:] -%}
{%- set index = loop.index0 + start -%}{%- set before = namespace(value=-1) -%}{%- for i in range(index - 1, -1, -1) -%}
{%- if messages[i].role != "tool" -%}{%- set before.value = i -%}{%- endif -%}{%- endfor -%}{%- set order = index - before.value -%}
{%- for key, value in message.arguments.items() -%}{{ value if value is string else (value | tojson) }}{%- endfor -%}{%- endfor -%}"""
SEED = """{%- set budgets = {0: 0, 512: 128, 1024: 256, 16384: 1024} -%}{%- set ns = namespace(interval = None) -%}
{%- for k, v in budgets | dictsort -%}{%- if ns.interval is none and thinking_budget <= k -%}{%- set ns.interval = v -%}{%- endif -%}
{%- endfor -%}{%- if ns.interval is none -%}{%- set ns.interval = budgets[16384] -%}{%- endif -%}{{ ns.interval }}"""
GRANITE = """{%- set g4_default = 'You are helpful.' %}{%- set ns = namespace(text='', docs='') %}{%- for tool in tools %}
{%- set ns.text = ns.text + '\\n' + (tool | tojson) %}{%- endfor %}{%- if documents %}{%- for doc in documents %}
{%- set ns.docs = ns.docs + '\\n' + (doc | tojson) %}{%- endfor %}{%- set ns.docs = ns.docs + '</documents>' %}{%- endif %}
{%- for message in messages %}{%- set content = namespace(val='') %}{%- if message.content is string %}
{%- set content.val = message.content %}{%- else %}{%- for entry in message.content %}{%- if content.val != '' %}
{%- set content.val = content.val + '\\n' %}{%- endif %}{%- set content.val = content.val + entry.text %}{%- endfor %}{%- endif %}
{{- content.val + ns.text + ns.docs }}{%- endfor %}"""
HERMES = """{%- macro typed(spec) %}{%- set known = {"string": "str"} %}{%- if known[spec.type] is defined %}{{- known[spec.type] }}
{%- elif spec.type == "array" %}{{- "list[" + typed(spec|items) + "]"}}{%- elif spec.type == "object" %}
{{- "dict[str, " + typed(spec.additionalProperties) + ']'}}{%- elif spec.type is iterable %}{%- for t in spec.type %}
{{- typed({"type": t}) }}{%- if not loop.last %}{{- "," }}{%- endif %}{%- endfor %}{%- endif %}{%- endmacro %}
{%- for tool in tools %}{%- for name, fields in tool.properties|items %}{{- name + ": " + typed(fields) }}{%- endfor %}{%- endfor %}"""
LFM = """{%- set ns = namespace(system="") -%}{%- for tool in tools -%}{%- if tool is not string -%}
{%- set tool = tool | tojson -%}{%- endif -%}{%- set ns.system = ns.system + tool -%}{%- endfor -%}{{ ns.system }}
{%- for message in messages %}{%- for name, value in message.arguments|items %}
{%- set value = value | tojson | safe if value is mapping else value | string %}{{- value }}{%- endfor %}{%- endfor %}"""
OTHERS = """{% generation %}{{ message.content }}{% endgeneration %}{% do messages.append(1) %}{% for _ in range(3) %}{% continue %}{% endfor %}
{% for i in range(messages|length - 1, -1, -1) %}{{ '_' * 80 }}{{ messages[i].content | replace('__', '') }}{% endfor %}
{{ parts | map('replace', '_', ' ') | join('_') }}
{{ tools | map(attribute='function') | map(attribute='name') | join(', ') }}{% call(x) f() %}{% endcall %}"""


MORE = (GPT_OSS_TYPES, GEMMA_4, GIGACHAT, KIMI, GLM, COHERE, DEEPSEEK_3, SEED, GRANITE, HERMES, LFM)


REAL = ("", "plain", QWEN, LLAMA, MISTRAL, GEMMA, DEEPSEEK, GPT_OSS, OTHERS, *MORE)


@pytest.mark.parametrize("template", REAL, ids=range(len(REAL)))
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


def nested(depth: int, iterable: str = "messages", body: str = "x") -> str:
    loops = "".join(f"{{% for v{number} in {iterable} %}}" for number in range(depth))
    return loops + body + "{% endfor %}" * depth


def in_a_loop(body: str, before: str = "") -> str:
    return f"{{% set ns = namespace(s='aa', t='a') %}}{before}{{% for i in range(99) %}}{body}{{% endfor %}}"


MACRO_CHAIN = "".join(
    f"{{% macro m{n}() %}}{{{{ m{n + 1}() }}}}{{{{ m{n + 1}() }}}}{{% endmacro %}}" for n in range(40)
)


HOSTILE = [
    ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "calls itself"),
    ("{% macro a(x) %}{{ a(x) }}{% endmacro %}{{ a(1) }}", "calls itself"),
    ("{% macro a(x) %}{% if x %}{{ a(x) }}{% endif %}{% endmacro %}{{ a(1) }}", "calls itself"),
    ("{% macro a(x) %}{% if x %}{{ a(x[0]) }}{% endif %}{% endmacro %}{{ a('b') }}", "calls itself"),
    ("{% macro a(x) %}{% if x %}{{ a({'k': x.k}) }}{% endif %}{% endmacro %}{{ a({'k': 1}) }}", "calls itself"),
    ("{% macro a(x) %}{% for t in x %}{% if t %}{{ a([t, t]) }}{% endif %}{% endfor %}{% endmacro %}", "calls itself"),
    ("{% macro a(x) %}{{ a(x.y) }}{% endmacro %}{{ a(1) }}", "calls itself"),
    ("{% macro a(x) %}{% set x = [x] %}{% if x %}{{ a(x) }}{% endif %}{% endmacro %}{{ a(1) }}", "calls itself"),
    ("{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}{{ a(x) }}{% endmacro %}{{ a(1) }}", "calls itself"),
    ("{% macro a() %}{% call a() %}{% endcall %}{% endmacro %}{{ a() }}", "calls itself"),
    ("{% macro a(f) %}{{ f(f) }}{% endmacro %}{{ a(a) }}", "never end"),
    ("{% set l = [] %}{% do l.append(l) %}{{ l | tojson }}", "grow"),
    ("{% set l = [] %}{% set m = [l] %}{% set _ = l.append(m) %}{{ l | tojson }}", "grow"),
    ("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", "grow"),
    ("{% set ns = namespace(l=[]) %}{% set _ = ns.l.append({'a': ns.l}) %}", "grow"),
    ("{% block a %}{{ self.a() }}{% endblock %}", "never end"),
    ("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "never end"),
    (nested(30), "never end"),
    (nested(7), "never end"),
    ("{% macro a() %}" + nested(4) + "{% endmacro %}" + nested(4, body="{{ a() }}"), "never end"),
    (nested(6, str([0] * 100)), "never end"),
    ("{% set l = " + str([0] * 100) + " %}" + nested(6, "l"), "never end"),
    (nested(3, "range(1, n)"), "never end"),
    (in_a_loop("{% set ns.s = ns.s + ns.s %}"), "grow"),
    (in_a_loop("{% set ns.s = ns.s ~ 'x' ~ ns.s %}"), "grow"),
    (in_a_loop("{% set s = s ~ s %}", "{% set s = 'a' %}"), "grow"),
    (in_a_loop("{% set ns.t = ns.s + ns.t %}{% set ns.s = ns.t + ns.s %}"), "grow"),
    (in_a_loop("{% set ns.s = ns.s * 2 %}"), "grow"),
    (in_a_loop("{% set ns.s = ns.s | replace('a', 'aa') %}"), "grow"),
    (in_a_loop("{% set ns.s = ns.s.replace('a', 'aa') %}"), "grow"),
    (in_a_loop("{% set ns.s = ns.s | tojson %}"), "grow"),
    (in_a_loop("{% set ns.s = '%s%s' | format(ns.s, ns.s) %}"), "grow"),
    (in_a_loop("{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}"), "grow"),
    (in_a_loop("{% set ns.s = [ns.s, ns.s] %}"), "grow"),
    (in_a_loop("{% for p in [ns.s] %}{% set ns.s = ns.s + p %}{% endfor %}"), "grow"),
    ("{% for n in [9999999] %}{{ 'a' * n * n }}{% endfor %}", "huge"),
    (in_a_loop("{% do l.extend(l) %}", "{% set l = [1, 2] %}"), "grow"),
    (in_a_loop("{% set ns.s = d(ns.s) %}", "{% macro d(x) %}{{ x }}{{ x }}{% endmacro %}"), "grow"),
    (in_a_loop("{% set ns.s = d() %}", "{% macro d() %}{{ ns.s }}{{ ns.s }}{% endmacro %}"), "grow"),
    (in_a_loop("{{ d() }}", "{% macro d() %}{% set ns.s = ns.s + ns.s %}{% endmacro %}"), "grow"),
    (in_a_loop("{% if i %}{% set ns.t = ns.s %}{% else %}{% set ns.s = ns.t + ns.s %}{% endif %}"), "grow"),
    ("{% set s = 'a' %}" + "{% set s = s + s %}" * 40, "huge"),
    ("{% set s0 = 'a' %}" + "".join(f"{{% set s{n + 1} = s{n} ~ s{n} %}}" for n in range(40)), "huge"),
    (MACRO_CHAIN + "{% macro m40() %}x{% endmacro %}{{ m0() }}", "complicated"),
    ("{% set n = 9999999 %}{% for i in range(n * n) %}{% endfor %}", "huge"),
    ("{% set n = 9999999 %}{% for i in range(n * 9) %}{% endfor %}", "huge"),
    ("{% macro f(n=9999999) %}{{ 'a' * n * n }}{% endmacro %}{{ f() }}", "huge"),
    ("{% macro f(n) %}{{ 'a' * n * n }}{% endmacro %}{{ f(9999999) }}", "huge"),
    ("{% set n = 9999999 %}{% macro f() %}{{ 'a' * n * n }}{% endmacro %}{{ f() }}", "huge"),
    ("{% set n = ('a' * 9999999) | length %}{{ 'a' * n * n }}", "huge"),
    ("{{ 'a' * n * n * n }}", "huge"),
    ("{{ '%999999999d' % 1 }}", "huge"),
    ("{{ 'a' | indent(999) | indent(999) | indent(999) }}", "huge"),
]


@pytest.mark.parametrize(("template", "reason"), HOSTILE, ids=range(len(HOSTILE)))
def test_endless_work_is_refused_with_a_reason(template: str, reason: str) -> None:
    assert reason in check_template(template)


ORDINARY = [
    "{% set ns = namespace(l=[], n=0) %}{% for m in messages %}{% set _ = ns.l.append({'n': ns.n, 'm': m.content}) %}{% endfor %}",
    nested(6),
    in_a_loop("{% set ns.s = ns.s + 'x' %}{% set ns.t = ns.t + ns.s %}"),
    in_a_loop("{% set s = message.content %}{% set s = s.split('a')[0] + s.split('a')[1] %}"),
    in_a_loop("{% set ns.s = (ns.s if i else ns.s) or ns.s %}"),
    in_a_loop("{% set ns.t = ns.s %}{% set ns.s = ns.t %}"),
    "{% set s = 'a' %}" + "{% set s = s + 'b' %}" * 400,
    "{% for i in range(messages | length) %}{% for j in range(i) %}x{% endfor %}{% endfor %}",
]


@pytest.mark.parametrize("template", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_work_is_accepted(template: str) -> None:
    assert check_template(template) == ""


def test_hostile_templates_are_judged_in_time() -> None:
    body = "{% set ns.s = ns.t + 'x' %}{{ a | replace('b', c) }}" * 700
    assert check_template(nested(6, body=body)) in ("", "is too complicated")
    chain = "".join(f"{{% set a{n} = a{n + 1}.x %}}" for n in range(4_000))
    recursive = f"{{% macro f(a4000) %}}{chain}{{% if a0 %}}{{{{ f(a0) }}}}{{% endif %}}{{% endmacro %}}{{{{ f(1) }}}}"
    assert check_template(recursive) == "is too complicated"
    additions = "".join(f"{{% set _ = l{n}.append(l{n + 1}) %}}" for n in range(4_000))
    assert check_template(additions) == "is too complicated"
    macros = "".join(f"{{% macro m{n}(x) %}}{{{{ m{n}(x) }}}}{{% endmacro %}}" for n in range(4_000))
    assert "macros" in check_template(macros)


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
    assert check_template("{{ a" + ".b" * 50_000 + " }}") == "is nested too deeply"


def test_capabilities() -> None:
    assert template_capabilities(QWEN) == ("tools", "thinking")
    assert template_capabilities(GPT_OSS) == ("tools", "thinking")
    assert template_capabilities(LLAMA) == ("tools",)
    assert template_capabilities(GEMMA) == ()


@pytest.mark.parametrize(
    ("template", "switches"),
    [
        (QWEN, ("enable_thinking",)),
        (GPT_OSS, ("reasoning_effort",)),
        (LLAMA, ()),
        ("", ()),
        ("{% if thinking is undefined %}{% set thinking = true %}{% endif %}{{ thinking }}", ("thinking",)),
        ("{{ message.thinking }}{{ message['reasoning_effort'] }}{% set enable_thinking = 1 %}", ()),
    ],
)
def test_switches_of_reasoning(template: str, switches: tuple[str, ...]) -> None:
    assert template_switches(template) == switches


@given(st.one_of(st.text(), st.text(alphabet="{}%-_'\"()[]|. abrange12*~forinset\\")))
def test_any_text_is_judged(text: str) -> None:
    reason = check_template(text)
    assert isinstance(reason, str)
    if not reason:
        template_capabilities(text)
