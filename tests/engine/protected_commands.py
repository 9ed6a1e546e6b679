"""Commands that make or change protected files: name, preparation, script, and the path that must not count."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str, str]] = {
    # created, at the top and below
    "rules": ("", "echo x > AGENTS.md", "AGENTS.md"),
    "settings of one byte": ("", "printf : > .tui-agent.yaml", ".tui-agent.yaml"),
    "environment": ("", "echo x >> .envrc", ".envrc"),
    "hook": ("", "mkdir .husky && echo x > .husky/pre-push", ".husky/pre-push"),
    "package manager": ("", "echo x | tee .npmrc", ".npmrc"),
    "servers": ("", "cat > .mcp.json <<< '{}'", ".mcp.json"),
    "attributes": ("", "touch .gitattributes", ".gitattributes"),
    "tasks": ("", "mkdir -p .vscode && echo '{}' > .vscode/tasks.json", ".vscode/tasks.json"),
    "deep rules": ("", "mkdir -p a/b/c && echo x > a/b/c/AGENTS.md", "a/b/c/AGENTS.md"),
    "deep repository": ("", "mkdir -p lib/.git && echo x > lib/.git/config", "lib/.git/config"),
    "start-up module": ("", "echo x > sitecustomize.py", "sitecustomize.py"),
    "commit hooks": ("", "echo x > lefthook.yml", "lefthook.yml"),
    "ignored": ("", "mkdir out; echo out > .gitignore; echo x > out/CLAUDE.md", "out/CLAUDE.md"),
    "another case": ("", "echo x > agents.MD", "agents.MD"),
    # renamed, linked, copied
    "file renamed": ("", "echo x > draft && mv draft CLAUDE.md", "CLAUDE.md"),
    "folder renamed": ("mkdir draft; echo x > draft/pre-commit", "mv draft .husky", ".husky/pre-commit"),
    "parent renamed": ("", "mkdir -p p/.idea && echo x > p/.idea/a.xml && mv p q", "q/.idea/a.xml"),
    "hard link": ("echo x > notes", "ln notes GEMINI.md", "GEMINI.md"),
    "symbolic link": ("echo x > notes", "ln -s notes AGENTS.md", "AGENTS.md"),
    "dangling link": ("", "ln -s later .envrc", ".envrc"),
    "link as repository": ("mkdir store; echo x > store/config", "ln -s store .git", ".git/config"),
    "copied with its time": ("mkdir t; echo x > t/AGENTS.md; touch -d 2001-01-01 t/AGENTS.md", "cp -p t/AGENTS.md .", "AGENTS.md"),
    "descriptor": ("", "exec 5> d; mv d .npmrc; echo x >&5", ".npmrc"),
    "repository file": ("", "mkdir s; echo 'gitdir: ../x' > s/.git", "s/.git"),
    "bare repository": ("", "mkdir -p v/objects v/refs; echo 'ref: refs/heads/m' > v/HEAD; echo x > v/config", "v/config"),
    # changed
    "appended": ("echo good > AGENTS.md", "echo x >> AGENTS.md", "AGENTS.md"),
    "same size and time": (
        "echo good > AGENTS.md",
        "t=$(stat -c %y AGENTS.md); echo evil > AGENTS.md; touch -d \"$t\" AGENTS.md",
        "AGENTS.md",
    ),
    "through another name": ("echo good > AGENTS.md; ln AGENTS.md copy", "echo x >> copy", "AGENTS.md"),
    "target of a link": ("mkdir d; echo good > d/r; ln -s d/r AGENTS.md", "echo x >> d/r", "AGENTS.md"),
    "target of a folder's link": ("mkdir h; ln -s h .husky", "echo x > h/pre-commit", ".husky/pre-commit"),
    "git settings": ("mkdir .git; echo good > .git/config", "echo x >> .git/config", ".git/config"),
    "git hook": ("mkdir -p .git/hooks; touch .git/config", "echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    "hooks elsewhere": ("mkdir .git hk; echo 'hooksPath = hk' > .git/config", "echo x > hk/pre-commit", "hk/pre-commit"),
    "made executable": ("mkdir -p .git/hooks; echo x > .git/hooks/pre-push", "chmod +x .git/hooks/pre-push", ".git/hooks/pre-push"),
    "repository rebuilt": (
        "mkdir -p s/.git; echo good > s/.git/config",
        "mv s old; mkdir -p s/.git; echo x > s/.git/config",
        "s/.git/config",
    ),
    # gone, or no file
    "deleted": ("echo 'approval_mode: ask' > .tui-agent.yaml", "rm .tui-agent.yaml", ".tui-agent.yaml"),
    "renamed away": ("echo 'approval_mode: ask' > .tui-agent.yaml", "mv .tui-agent.yaml x", ".tui-agent.yaml"),
    "a folder instead": ("echo good > AGENTS.md", "rm AGENTS.md; mkdir AGENTS.md", "AGENTS.md"),
    "a link instead": ("echo good > AGENTS.md; echo x > n", "ln -sf n AGENTS.md", "AGENTS.md"),
    "a pipe": ("", "mkfifo .tui-agent.yaml", ".tui-agent.yaml"),
    "an empty folder": ("", "mkdir .devcontainer", ".devcontainer"),
    "nobody may read it": ("", "echo x > .envrc; chmod 0 .envrc", ".envrc"),
    "a name that is no text": ("", "mkdir -p $'a\\xff/.git' && echo x > $'a\\xff/.git/config'", "a\udcff/.git/config"),
    "two lines in a name": ("", "mkdir -p $'a\\nb/.git' && echo x > $'a\\nb/.git/config'", "a\nb/.git/config"),
}  # fmt: skip

ORDINARY = (
    "echo x > main.py",
    "mkdir -p tests && echo x > tests/conftest.py",
    "echo x > Makefile",
    "mkdir -p src/a && mv src/a src/b && echo x > src/b/c.py",
    "mkdir -p node_modules/p && echo x > node_modules/p/.npmrc",
    "mkdir -p .venv/bin && echo x > .venv/bin/python",
    "mkdir -p .git/objects/ab && echo x > .git/objects/ab/cd && echo x > .git/index && echo x > .git/HEAD",
    "echo x > README.md && rm README.md",
)
"""Commands of daily work, in a repository, about which nobody is asked."""
