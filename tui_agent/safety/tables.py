"""Globs and names that decide what needs approval (A2, A4, A8). In each list of globs, the last match wins.

A module and no data file, as reading TOML costs every start 3 ms and half a megabyte.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Decision: TypeAlias = Literal["run", "ask", "refuse"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Always need approval, in every mode; no grant covers them (A2).
PROTECTED: Final = (
    # version control: hooks and configuration are programs
    "**/.git/**",
    "**/.hg/**",
    "**/.svn/**",
    "**/.jj/**",
    "**/.husky/**",
    "**/.githooks/**",
    "**/.github/workflows/**",
    "**/.github/actions/**",
    # editors and environments that run what they find
    "**/.vscode/**",
    "**/.idea/**",
    "**/.vs/**",
    "**/.zed/**",
    "**/.devcontainer/**",
    "**/*.code-workspace",
    "**/.env*/**",
    "**/mise.toml",
    "**/.mise.toml",
    "**/.mise/**",
    # rules and settings of agents
    "**/AGENTS.md",
    "**/AGENTS.override.md",
    "**/CLAUDE.md",
    "**/CLAUDE.local.md",
    "**/GEMINI.md",
    "**/.cursor*/**",
    "**/.windsurf*/**",
    "**/.clinerules/**",
    "**/.roo*/**",
    "**/.aider*",
    "**/.{claude,codex,gemini,continue,opencode,agents}/**",
    "**/.claude.json",
    "**/.mcp.json",
    "**/.github/copilot-instructions.md",
    "**/.github/{instructions,prompts,chatmodes,agents}/**",
    "**/.tui-agent*/**",
    # shells and start-up files
    "**/.{bash,zsh,ksh,csh,tcsh}rc",
    "**/.bash_{profile,login,logout,aliases}",
    "**/.{profile,zshenv,zprofile,zlogin,zlogout,login,logout,cshrc,inputrc,xinitrc,xprofile,xsession,xsessionrc,pam_environment}",
    "**/.config/{fish,autostart,systemd,environment.d,git,direnv,nvim,tmux}/**",
    "**/.local/bin/**",
    "**/Library/Launch{Agents,Daemons}/**",
    "**/.{vimrc,gvimrc,exrc,nvimrc,nvim.lua,dir-locals.el,emacs,tmux.conf,screenrc,gdbinit,lldbinit,pdbrc,irbrc,pryrc,psqlrc,sqliterc,Rprofile,pythonrc}",
    "**/.emacs.d/**",
    "**/.{gitconfig,gitmodules,gitattributes,curlrc,wgetrc,condarc,npmrc,yarnrc,pypirc,netrc,mailcap,digrc}",
    "**/.yarnrc.{yml,yaml}",
    "**/_netrc",
    "**/{pip.conf,pip.ini}",
    "**/.pip/**",
    "**/.cargo/{config,config.toml,credentials,credentials.toml}",
    "**/etc/{passwd,shadow,sudoers,crontab,hosts,profile,environment,ld.so.preload}",
    "**/etc/{sudoers.d,cron.*,profile.d,systemd,init.d,pam.d,ssh}/**",
    "**/var/spool/cron/**",
    # keys and keyrings
    "**/.ssh/**",
    "**/.gnupg/**",
    "**/.{aws,azure,kube,docker,password-store}/**",
    "**/.config/{gcloud,gh,op}/**",
    "**/.git-credentials",
    "**/.{pgpass,my.cnf,vault-token,dockercfg}",
    "**/*.{key,pem,p12,pfx,p8,jks,keystore,kdbx,ppk}",
    "**/id_{rsa,dsa,ecdsa,ecdsa_sk,ed25519,ed25519_sk}",
    "**/authorized_keys",
)

# Obeyed by a program without being called, although an edit of them may be ordinary work: what a command makes of them
# counts as protected.
OBEYED: Final = (
    "**/.devcontainer.json",
    "**/opencode.{json,jsonc}",
    "**/.bundle/config",
    "**/.ripgreprc",
    "**/.lfsconfig",
    "**/.pnpmfile.cjs",
    "**/.pre-commit-{config,hooks}.yaml",
    "**/{lefthook,.lefthook}.{yml,yaml}",
    "**/.lintstagedrc{,.json,.yaml,.yml,.js,.cjs,.mjs}",
    "**/.yarn/{releases,plugins}/**",
    "**/{sitecustomize,usercustomize}.py",
    "**/.circleci/**",
    "**/.gitlab-ci.{yml,yaml}",
)

# A2: asked for with a diff, unless the setting approves them.
SENSITIVE: Final = (
    # lock files
    "**/*.lock",
    "**/*.lockb",
    "**/*-lock.{json,yaml,yml}",
    "**/{npm-shrinkwrap.json,go.sum,gradle.lockfile,packages.lock.json,Package.resolved,pdm.lock,uv.lock}",
    # package manifests: they run code when packages are installed or built
    "**/{package.json,bower.json,deno.json,deno.jsonc,jsr.json,pnpm-workspace.yaml,.pnpmfile.cjs}",
    "**/{pyproject.toml,setup.py,setup.cfg,Pipfile,environment.yml,environment.yaml,constraints.txt}",
    "**/requirements*.{txt,in}",
    "**/requirements/*.{txt,in}",
    "**/{Cargo.toml,build.rs,go.mod,go.work,Gemfile,Rakefile,mix.exs,composer.json,Package.swift,Podfile,pubspec.yaml}",
    "**/*.{gemspec,podspec,csproj,fsproj,vbproj,vcxproj,sln,props,targets,cabal}",
    "**/{pom.xml,build.gradle,build.gradle.kts,settings.gradle,settings.gradle.kts,gradle.properties,nuget.config}",
    "**/gradle/wrapper/**",
    "**/{web.config,server.xml}",
    # continuous integration and what runs by itself
    "**/.github/**",
    "**/.gitlab-ci.{yml,yaml}",
    "**/.gitlab/**",
    "**/.{circleci,buildkite,woodpecker,forgejo,gitea,ci}/**",
    "**/{.travis,.drone,.woodpecker,.cirrus,.appveyor,appveyor,bitbucket-pipelines,azure-pipelines,cloudbuild}.{yml,yaml}",
    "**/Jenkinsfile*",
    "**/.pre-commit-{config,hooks}.yaml",
    "**/{lefthook,.lefthook}.{yml,yaml}",
    "**/{CODEOWNERS,.npmignore}",
    # secrets that are not keys
    "**/secrets/**",
    "**/.secrets/**",
    "**/*.tfstate",
    "**/*.tfvars",
    "**/{secrets,credentials}.{json,yaml,yml,toml,ini}",
)

# A2: reading these asks …
CREDENTIALS: Final = (
    "**/.env*",
    "**/.envrc",
    "**/.dev.vars*",
    "**/.vault[-_]pass*",
    "**/.ssh/**",
    "**/.gnupg/**",
    "**/.aws/**",
    "**/.azure/**",
    "**/.kube/**",
    "**/.docker/config.json",
    "**/.dockercfg",
    "**/.password-store/**",
    "**/.config/{gcloud,gh,op,rclone,hub}/**",
    "**/.local/share/keyrings/**",
    "**/Library/Keychains/**",
    "**/.{npmrc,pypirc,netrc,git-credentials,pgpass,my.cnf,vault-token,terraformrc,s3cfg,boto,htpasswd}",
    "**/_netrc",
    "**/.yarnrc.yml",
    "**/.cargo/credentials*",
    "**/.gem/credentials",
    "**/*.{key,pem,p12,pfx,p8,jks,keystore,kdbx,ppk,ovpn,tfstate,tfvars}",
    "**/id_{rsa,dsa,ecdsa,ecdsa_sk,ed25519,ed25519_sk}",
    "**/{secrets,credentials}.{json,yaml,yml,toml,ini}",
    "**/service[-_]account*.json",
    "**/.secrets/**",
    "**/token.json",
    "**/etc/{shadow,gshadow,sudoers}",
    "**/etc/shadow-",
    "**/{Cookies,Login Data,logins.json,key4.db}",
    "**/.{bash,zsh,python,psql,mysql}_history",
)

# … but for these.
NO_CREDENTIALS: Final = (
    "**/.env*.{example,sample,template,dist,defaults,tpl}",
    "**/.env.{example,sample,template,dist,defaults}.*",
    "**/.ssh/{known_hosts,*.pub}",
)

# What git commands write in a git folder; the rest, such as hooks and settings, stays read-only in a sandbox (A10).
GIT_DATA: Final = r"""(?x)
    [A-Z][A-Z_]* | objects | refs | logs | shallow | reftable | .*\.lock | gc\.(pid|log) | \.tmp-.*
    | (index|next-index|sharedindex|packed-refs)([.-].*)? | rebase-(merge|apply) | sequencer | rr-cache
    | lost-found | lfs
"""

# Programs that run whatever they are given, reach other machines, or change what is installed: never "always".
NEVER_ALWAYS: Final = _words(
    """
    sh bash dash zsh ksh fish csh tcsh busybox ash rbash pwsh powershell python python2 python3 pypy pypy3 ipython
    perl ruby irb node nodejs deno bun ts-node tsx php lua luajit java jshell groovy scala kotlin swift Rscript R
    julia ghci runghc racket guile sbcl clojure erl elixir iex awk gawk mawk nawk osascript tclsh expect gdb lldb
    sudo doas su pkexec runuser run0 env xargs parallel nice ionice nohup timeout stdbuf setsid script watch time
    command builtin exec eval source . chroot unshare nsenter systemd-run strace ltrace flock entr at batch
    crontab curl wget aria2c ssh scp sftp rsync ftp telnet nc ncat netcat socat mosh gh glab hub aws gcloud az
    kubectl helm terraform ansible ansible-playbook docker podman nerdctl docker-compose vagrant pip pip3 pipx
    easy_install conda mamba micromamba apt apt-get aptitude dpkg yum dnf rpm pacman zypper apk brew port snap
    flatpak gem nix nix-env nix-shell nix-build npx pnpx bunx uvx corepack cpan cpanm luarocks find fd sed vi vim
    nvim emacs nano ed ex tee dd rm rmdir mv shred chmod chown ln install mount umount kill pkill
    """
)

# Programs that install packages.
INSTALLERS: Final = _words(
    """
    npm pnpm yarn uv poetry pdm hatch rye cargo go bundle composer mix dotnet mvn gradle
    """
)

# First arguments with which an installer only does what the project says.
HARMLESS_ARGUMENTS: Final = _words(
    """
    test t run lint check build fmt format vet clippy doc version tree list
    """
)

# Subcommands of git that may be allowed always.
GIT: Final = _words(
    """
    status diff log show branch add commit stash blame describe rev-parse ls-files
    """
)

# The matrix of A4: what happens in the approval modes ask, auto-edit, auto and read-only, and the reason that is given.
MATRIX: Final[dict[str, tuple[Decision, Decision, Decision, Decision, str]]] = {
    "reading": ("run", "run", "run", "run", "Reading inside the workspace needs no approval"),
    "reading_credentials": ("ask", "ask", "ask", "refuse", "This file holds credentials"),
    "reading_outside": ("ask", "ask", "ask", "refuse", "This lies outside the workspace"),
    "edit": ("ask", "run", "run", "refuse", "Approval mode {approval_mode}: edits inside the workspace"),
    "sensitive": ("ask", "ask", "ask", "refuse", "This file is on the list of sensitive files"),
    "protected": ("ask", "ask", "ask", "refuse", "This file is protected: its change is always asked for"),
    "outside": ("ask", "ask", "ask", "refuse", "This file lies outside the workspace"),
    "safe_command": ("run", "run", "run", "run", "This command can only read and print"),
    "command": (
        "ask",
        "ask",
        "run",
        "refuse",
        "Approval mode {approval_mode}: commands that may do more than read and print",
    ),
    "command_credentials": ("ask", "ask", "ask", "refuse", "This command reads credentials"),
    "command_outside": ("ask", "ask", "ask", "refuse", "This command reads outside the workspace"),
    "unfamiliar": ("ask", "ask", "ask", "refuse", "It is not known what this command does"),
    "medium": ("ask", "ask", "run", "refuse", "Approval mode {approval_mode}: commands of medium severity"),
    "high": ("ask", "ask", "ask", "refuse", "This command can do lasting harm (high severity)"),
    "critical": ("ask", "ask", "ask", "refuse", "This command can destroy data beyond repair (critical severity)"),
    "always_ask": ("ask", "ask", "ask", "refuse", "This kind of command is always asked for"),
}

# Why a read-only mode refuses an action, and what the model can do instead (W11).
REFUSALS: Final[dict[str, str]] = {
    "reading": "{mode} keeps to the workspace and to files without credentials; continue without this file",
    "edit": "{mode} changes no file; describe the change in your reply, the user can switch modes to have it made",
    "edit_in_plan_mode": (
        "{mode} changes no file: propose the change in your reply, and what it means for the plan by update_plan"
    ),
    "command": "{mode} runs only commands that read and print; use the reading tools, or tell the user what to run",
    "any_command": "{mode} runs no commands; use the tools that read and search, or tell the user what to run",
}
