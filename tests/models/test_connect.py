from __future__ import annotations

import subprocess
import sys

import pytest

from tui_agent.models.connect import BadAddress, Provider, connect, ollama_host, resolve_provider
from tui_agent.models.endpoint import endpoint, is_local
from tui_agent.models.wire import WireLimits, default_limits


@pytest.mark.parametrize(
    ("flag", "configured", "env", "provider", "url"),
    [
        (None, None, {}, "ollama", "http://localhost:11434"),
        (None, None, {"OLLAMA_HOST": "box:9000"}, "ollama", "http://box:9000"),
        (None, None, {"OLLAMA_HOST": "http://box:9000/v1"}, "ollama", "http://box:9000"),
        (None, None, {"OLLAMA_HOST": "http://box:9000/api/"}, "ollama", "http://box:9000"),
        (None, None, {"LLM_BASE_URL": "http://h/v1", "OLLAMA_HOST": "box"}, "openai", "http://h/v1"),
        (None, None, {"LLM_BASE_URL": "http://h/v1/chat/completions/"}, "openai", "http://h/v1"),
        (None, "ollama", {"LLM_BASE_URL": "http://h/v1"}, "ollama", "http://localhost:11434"),
        ("openai", "ollama", {"LLM_BASE_URL": "http://h/v1"}, "openai", "http://h/v1"),
        ("scripted", "ollama", {}, "scripted", ""),
    ],
)
def test_the_provider_comes_from_flag_config_and_environment_in_this_order(flag, configured, env, provider, url):
    choice = resolve_provider(provider=flag, configured=configured, env=env)
    assert (choice.provider, choice.base_url) == (provider, url)
    assert choice.because


def test_a_given_base_url_comes_before_the_environment():
    env = {"LLM_BASE_URL": "http://other/v1", "OLLAMA_HOST": "other"}
    assert resolve_provider(provider="ollama", base_url="http://h:1/", env=env).base_url == "http://h:1"
    assert resolve_provider(provider="openai", base_url="http://h:1/v1", env=env).base_url == "http://h:1/v1"


def test_what_cannot_be_resolved_is_said():
    with pytest.raises(BadAddress, match="LLM_BASE_URL"):
        resolve_provider(provider="openai", env={})
    with pytest.raises(BadAddress, match="llama"):
        resolve_provider(provider="llama", env={})


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://localhost:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        ("1.2.3.4:56", "http://1.2.3.4:56"),
        (":56", "http://localhost:56"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("[::]:11434", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("example.com", "http://example.com:11434"),
        ("http://example.com", "http://example.com:80"),
        ("https://example.com", "https://example.com:443"),
        ("https://example.com:5/ollama", "https://example.com:5/ollama"),
        (' "box:1" ', "http://box:1"),
    ],
)
def test_ollama_host(value, url):
    assert ollama_host(value) == url


@pytest.mark.parametrize("value", ["box:port", "box:70000", "box:0"])
def test_an_ollama_host_without_a_usable_port(value):
    with pytest.raises(BadAddress):
        ollama_host(value)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "192.168.1.7",
        "172.20.0.2",
        "100.64.0.1",
        "box",
        "a.local",
        "LOCALHOST.",
    ],
)
def test_hosts_that_are_near(host):
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["example.com", "8.8.8.8", "2606:4700::1111", "localhost.example.com", "notlocal"[:3] + ".ai"]
)
def test_hosts_that_are_far(host):
    assert not is_local(host)


def test_a_base_url_is_taken_apart():
    where = endpoint("https://me:s%40cret@api.example.com/v1/?api-version=3#x", None, {})
    assert where.base == "https://api.example.com/v1"
    assert where.url("/chat/completions") == "https://api.example.com/v1/chat/completions?api-version=3"
    assert where.url("//props") == "https://api.example.com/props?api-version=3"
    assert where.authorization == "Basic bWU6c0BjcmV0"
    assert where.secrets == ("s@cret",)
    assert endpoint("https://me:x@h.com", "tok", {}).authorization == "Bearer tok"
    assert endpoint("localhost:8000/v1", None, {}).base == "http://localhost:8000/v1"
    assert endpoint("api.example.com/v1", None, {}).base == "https://api.example.com/v1"


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://x:port", "http://[x", "http://a b/", "http://x\x00y/", "file:///etc"]
)
def test_what_can_be_no_address(url):
    with pytest.raises(BadAddress):
        endpoint(url, None, {})


def test_an_address_in_an_error_has_no_password():
    with pytest.raises(BadAddress) as caught:
        endpoint("ftp://me:canary@host/", None, {})
    assert "canary" not in str(caught.value)


def test_plain_http_to_a_far_host_is_cautioned():
    assert endpoint("http://api.example.com/v1", None, {}).warning
    assert not endpoint("https://api.example.com/v1", None, {}).warning
    assert not endpoint("http://192.168.0.4/v1", None, {}).warning


@pytest.mark.parametrize(
    ("env", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "p:1"}, "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, None),
        ({"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "example.com"}, None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ".example.com"}, None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.com, api.example.com:443"}, None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "api.example.com:80"}, "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "ample.com"}, "http://p:1"),
    ],
)
def test_proxies(env, proxy):
    assert endpoint("https://api.example.com/v1", None, env).proxy == proxy


def test_a_network_exempt_from_the_proxy():
    env = {"ALL_PROXY": "http://p:1", "NO_PROXY": "8.8.0.0/16"}
    assert endpoint("http://8.8.4.4/v1", None, env).proxy is None
    assert endpoint("http://8.9.4.4/v1", None, env).proxy == "http://p:1"
    assert endpoint("http://192.168.1.2/v1", None, {"ALL_PROXY": "http://p:1"}).proxy is None


def test_a_missing_certificate_file_is_said_not_raised():
    model = connect("openai", "https://api.example.com/v1", env={"LLM_CA": "/no/such/file"})
    assert model.endpoint == "https://api.example.com/v1"


def test_the_limits_of_the_specification():
    near, far = default_limits(True), default_limits(False)
    assert (near.connect, near.first_byte, near.no_bytes, near.no_progress) == (10, 600, 120, 600)
    assert (far.connect, far.first_byte, far.no_bytes, far.no_progress) == (10, 120, 120, 180)
    assert near == WireLimits()


async def test_a_missing_certificate_file_is_a_fault():
    model = connect("openai", "https://api.example.com/v1", env={"LLM_CA": "/no/such/file"}, retries=False)
    fault = await model.list_models()
    assert "LLM_CA" in getattr(fault, "advice", "") and "/no/such/file" in getattr(fault, "message", "")


def test_the_token_of_the_environment_is_not_given_to_an_ollama_nearby():
    cases: list[tuple[Provider, str, str | None]] = [
        ("ollama", "http://localhost:11434", None),
        ("ollama", "https://ollama.example.com", "Bearer t"),
        ("openai", "http://localhost:8000/v1", "Bearer t"),
    ]
    for provider, url, wanted in cases:
        model = connect(provider, url, env={"LLM_AUTH_TOKEN": "t"}, retries=False)
        assert model._wire.endpoint.authorization == wanted  # type: ignore[attr-defined] # looked at, not used


def test_scripted_needs_no_server():
    assert connect("scripted", "").provider == "scripted"


def test_choosing_a_server_imports_no_http_client_and_the_client_no_rich():
    code = (
        "import sys, tui_agent.models.connect as c; c.resolve_provider(env={}); m = c.connect('ollama', c.DEFAULT_OLLAMA_URL, env={})\n"
        "assert 'httpx' not in sys.modules\n"
        "m._wire.client\n"
        "assert 'httpx' in sys.modules and 'httpx._main' not in sys.modules\n"
        "assert not {'rich', 'textual', 'click', 'pygments'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("url", ["http://localhost:11434x", "http://localhost:70000"])
def test_a_wrong_port_is_named_in_plain_words(url: str) -> None:
    with pytest.raises(BadAddress, match=r"can't be read: the port is not a number from 0 to 65535\.$"):
        connect(provider="openai", base_url=url, env={})
