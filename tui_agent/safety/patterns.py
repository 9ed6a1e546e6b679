"""Which files are protected, sensitive, or hold credentials: tables of globs, matched against resolved paths.

Last match wins; true is safe. Patterns begin with `**/`, so they hold in every folder and for absolute paths.
"""

from __future__ import annotations

from typing import TypeAlias

Patterns: TypeAlias = tuple[tuple[str, bool], ...]


def _ask(*globs: str) -> Patterns:
    return tuple((glob, False) for glob in globs)


PROTECTED: Patterns = _ask(
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
"""R-16: always asked for, in every mode; no grant covers them."""

SENSITIVE: Patterns = _ask(
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
"""A2: asked for with a diff, unless the setting approves them."""

CREDENTIALS: Patterns = (
    *_ask(
        "**/.env*",
        "**/.envrc",
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
        "**/etc/{shadow,gshadow,sudoers}",
        "**/etc/shadow-",
        "**/{Cookies,Login Data,logins.json,key4.db}",
        "**/.{bash,zsh,python,psql,mysql}_history",
    ),
    ("**/.env*.{example,sample,template,dist,defaults,tpl}", True),
    ("**/.env.{example,sample,template,dist,defaults}.*", True),
    ("**/.ssh/{known_hosts,*.pub}", True),
)
"""A2: reading these asks."""

BY_NAME: Patterns = (*SENSITIVE, *CREDENTIALS, *PROTECTED)
"""All of them: what an approval is needed for by default."""
