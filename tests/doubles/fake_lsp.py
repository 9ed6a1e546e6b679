"""A language server that behaves as its arguments say: `python fake_lsp.py LOG MODE...`, speaking over stdin and stdout.

In its view every line of a file with the word WRONG is an error. It writes to LOG, a JSON array a line, what it gets.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

LOG, MODES = Path(sys.argv[1]), frozenset(sys.argv[2:])
OUT = sys.stdout.buffer
TEXTS: dict[str, str] = {}
DAY = 86_400


def log(*entry: Any) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def say(message: dict[str, Any], length: int | None = None) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    OUT.write(b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body)
    OUT.flush()


def read() -> dict[str, Any] | None:
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        if line == b"\r\n":
            break
        length = int(line.partition(b":")[2])
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
    return message


def place(line: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": 0}, "end": {"line": line, "character": end}}


def wrong(uri: str) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(TEXTS.get(uri, "").splitlines()):
        if "WRONG" in line:
            at = len(line[: line.index("WRONG")].encode("utf-16-le")) // 2
            start = {"line": number, "character": at}
            found.append({
                "range": {"start": start, "end": start}, "severity": 1, "message": f"wrong: {line.strip()}", "code": "W1"
            })  # fmt: skip
    return found


def capabilities() -> dict[str, Any]:
    offered: dict[str, Any] = {
        "textDocumentSync": 1,
        "definitionProvider": True,
        "referencesProvider": True,
        "hoverProvider": "no-hover" not in MODES,
    }
    if "utf-8" in MODES:
        offered["positionEncoding"] = "utf-8"
    if "pull" in MODES:
        offered["diagnosticProvider"] = {"interFileDependencies": False, "workspaceDiagnostics": False}
    return offered


def published(uri: str, version: int) -> None:
    if "pull" in MODES or "mute" in MODES:
        return
    params: dict[str, Any] = {"uri": uri, "diagnostics": wrong(uri)}
    if "own-spelling" in MODES:
        params["uri"] = unquote(uri)
    if "short-spelling" in MODES:
        params["uri"] = uri.replace("file:///", "file:/")
    if "everywhere" in MODES:
        for number in range(5):
            other = {"uri": f"file:///elsewhere/{number}.py", "diagnostics": wrong(uri)}
            say({"method": "textDocument/publishDiagnostics", "params": other})
    if "no-versions" in MODES:
        say({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
        if "stages" in MODES:
            time.sleep(0.5)
    else:
        params["version"] = version
    say({"method": "textDocument/publishDiagnostics", "params": params})


def notified(method: str, params: Any) -> None:
    if method == "initialized" and "asks" in MODES:
        items = {"items": [{"section": "a"}, {"section": "b"}]}
        say({"id": "c", "method": "workspace/configuration", "params": items})
        say({"id": "p", "method": "window/workDoneProgress/create", "params": {"token": 1}})
        say({"id": "e", "method": "workspace/applyEdit", "params": {"edit": {}}})
        say({"id": "x", "method": "nobody/knows", "params": {}})
        registration = {"id": "d", "method": "textDocument/documentSymbol"}
        say({"id": "r", "method": "client/registerCapability", "params": {"registrations": [registration]}})
        say({"id": "o", "method": "client/registerCapability", "params": {"registrations": 5}})
    if method == "initialized" and ("indexing" in MODES or "never-ends" in MODES):
        say({"method": "$/progress", "params": {"token": 1, "value": {"kind": "begin", "title": "Indexing"}}})
    if method == "textDocument/didOpen":
        TEXTS[params["textDocument"]["uri"]] = params["textDocument"]["text"]
        published(params["textDocument"]["uri"], params["textDocument"]["version"])
        if "indexing" in MODES:
            log("indexed")
            say({"method": "$/progress", "params": {"token": 1, "value": {"kind": "end"}}})
    if method == "textDocument/didClose" and "no-versions" in MODES:
        none = {"uri": params["textDocument"]["uri"], "diagnostics": []}
        say({"method": "textDocument/publishDiagnostics", "params": none})
    if method == "textDocument/didChange":
        TEXTS[params["textDocument"]["uri"]] = params["contentChanges"][-1]["text"]
        published(params["textDocument"]["uri"], params["textDocument"]["version"])


def answer(number: Any, method: str, params: Any) -> None:
    if method == "textDocument/diagnostic":
        say({"id": number, "result": {"kind": "full", "items": wrong(params["textDocument"]["uri"])}})
    elif method == "textDocument/hover":
        position = params["position"]
        say({"id": number, "result": {"contents": f"at {position['line']}:{position['character']}"}})
    elif method == "textDocument/references":
        uri = params["textDocument"]["uri"]
        found = [{"uri": uri, "range": place(line, 1)} for line in range(40)]
        odd = [{"uri": "untitled:1", "range": place(1, 1)}, {"uri": 7}, "no object", None]
        say({"id": number, "result": [*found, *odd, *found]})
    elif method == "many":
        many = []
        for line in range(5_000):
            spot = {"uri": "file:///w/a.py", "range": place(line, 1)}
            many.append({"name": f"n{line}", "kind": 12, "location": spot, **spot})
        say({"id": number, "result": many})
    elif method == "textDocument/definition":
        defined(number, params)
    else:
        say({"id": number, "error": {"code": -32601, "message": f"no\u001b[31m {method}"}})


def defined(number: Any, params: Any) -> None:
    result = {"uri": params["textDocument"]["uri"], "range": place(0, 1)}
    if "crash" in MODES or ("crash-once" in MODES and LOG.read_text().count('"start"') == 1):
        sys.exit(3)
    if "hang" in MODES:
        time.sleep(DAY)
    while "chatters" in MODES:
        say({"method": "window/logMessage", "params": {"type": 4, "message": "busy"}})
        time.sleep(0.05)
    if "huge" in MODES:
        say({"id": number, "result": "x" * (9 << 20)})
        return
    if "too-long" in MODES:  # swallows the beginning of the next message
        say({"method": "nothing", "params": {}}, length=100)
    if "too-short" in MODES:
        say({"method": "nothing", "params": {"text": "x" * 100}}, length=20)
    if "noise" in MODES:
        OUT.write(b"warning: something\nContent-Length: none\r\n\r\n" * 20)
    if "flood" in MODES:
        OUT.write(b"x" * (3 << 20))
    say({"id": number, "result": result})


def main() -> None:
    if "deaf" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log("start", os.getpid(), os.getcwd(), sorted(os.environ))
    print("a word about itself", file=sys.stderr, flush=True)
    if "noise" in MODES:
        OUT.write(b"Welcome!\n")
    while (message := read()) is not None:
        method, number = message.get("method"), message.get("id")
        log(method, message.get("params"), message.get("result"), message.get("error"), number)
        if method == "initialize":
            if "dies" in MODES:
                sys.exit(1)
            if "hang-initialize" in MODES:
                time.sleep(DAY)
            say({"id": number, "result": {"capabilities": capabilities()}})
        elif method == "shutdown":
            if "stubborn" in MODES:
                time.sleep(DAY)
            say({"id": number, "result": None})
        elif method == "exit":
            return
        elif method is not None and number is None:
            notified(method, message.get("params"))
        elif method is not None:
            answer(number, method, message.get("params"))


if __name__ == "__main__":
    main()
