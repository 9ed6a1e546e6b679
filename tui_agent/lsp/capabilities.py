"""What this client tells a server that it can do, and where a server says what it can."""

from __future__ import annotations

from typing import Any

_LATER = {"dynamicRegistration": True}
_LINKS = {"dynamicRegistration": True, "linkSupport": True}
_KINDS = {"valueSet": list(range(1, 27))}

CLIENT: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16", "utf-8", "utf-32"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "applyEdit": False,
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": _LATER,
        "didChangeWatchedFiles": _LATER,
        "symbol": {"dynamicRegistration": True, "symbolKind": _KINDS},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"dynamicRegistration": False, "didSave": True},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
        "diagnostic": {"dynamicRegistration": True, "relatedDocumentSupport": False},
        "documentSymbol": {
            "dynamicRegistration": True,
            "hierarchicalDocumentSymbolSupport": True,
            "symbolKind": _KINDS,
        },
        "definition": _LINKS,
        "implementation": _LINKS,
        "references": _LATER,
        "hover": {"dynamicRegistration": True, "contentFormat": ["plaintext", "markdown"]},
        "callHierarchy": _LATER,
        "typeHierarchy": _LATER,
    },
}

PROVIDERS = {
    "textDocument/diagnostic": "diagnosticProvider",
    "textDocument/documentSymbol": "documentSymbolProvider",
    "textDocument/definition": "definitionProvider",
    "textDocument/references": "referencesProvider",
    "textDocument/implementation": "implementationProvider",
    "textDocument/hover": "hoverProvider",
    "textDocument/prepareCallHierarchy": "callHierarchyProvider",
    "textDocument/prepareTypeHierarchy": "typeHierarchyProvider",
    "workspace/symbol": "workspaceSymbolProvider",
}
"""Method → the field of a server's capabilities that offers it."""
