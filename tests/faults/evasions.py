"""Command lines that do more than they look like, made from families. All they do is make a file `pwned`
or show what nobody may see unasked; none is dangerous to run in an empty folder.
"""

from __future__ import annotations

P = "touch pwned"

_JOINTS = (
    "ls\n{}", "ls;{}", "ls&{}", "ls&&{}", "false||{}", "ls|{}", "ls|&{}", "ls &\n{}", "ls #x\n{}", "ls \\\n;{}", "ls;\n\n{}", "ls && (\n{})",
    "ls\t;\t{}", "cat notes.txt|{}", "true && true && {}", "pwd;:;{}", "ls 2>/dev/null;{}", "ls >/dev/null&&{}", "echo 'a;b';{}", 'echo "a\\"";{}',
    "echo 'it'\\''s';{}", "echo a\\;{}\n{}", "printf %s x;{}", "echo $'a\\'b';{}", "ls -- -x;{}", "! false && {}",
)  # fmt: skip
_EXPANSIONS = (
    "echo $({})", "echo `{}`", 'echo "$({})"', 'echo "`{}`"', "echo ${{x:-$({})}}", "echo ${{x-`{}`}}", "echo ${{x:=$({})}}", "cat <({})", "echo >({})",
    "echo $((a[$({})0]))", "echo $[a[$({})0]]", "[[ -v a[$({})] ]]", "test -v 'a[$({})]'", "[ -v 'a[$({})]' ]", "printf -v 'a[$({})]' x", "x='$({})'; echo \"${{x@P}}\"",
    "read 'a[$({})0]' <<< 1", "let 'a[$({})0]=1'", "(( a[$({})0] ))", "declare 'a[$({})0]=1'", "a=(1); unset 'a[$({})0]'", "a=([$({})0]=1)", "x='a[$({})0]'; echo ${{!x}}",
    "x='a[$({})0]'; echo $((x))", "x=abc; echo ${{x:$({})0:1}}", "echo \"${{x:-\"$({})\"}}\"", "cat notes.txt$({})", "ls -$({})l", "head -n $({})1 notes.txt", "x=$({})", "export x=$({})",
    "echo ${{a[$({})0]}}", "echo $(echo $({}))", "echo \"$(echo \"$({})\")\"", "ls >/dev/null$({})", "ls 2>/dev/null <({})", "local_=`{}` ls", "case $({}) in *) ls;; esac", "for x in $({}); do ls; done",
    "[[ x == $({}) ]]", "echo $((`{}`0))", "select x in $({}); do break; done", "echo {{a,$({})}}", "wc -l <<< $({})", "cat <<E\n$({})\nE", "cat <<-E\n\t`{}`\nE", "cat <<E | wc -l\n${{x:-$({})}}\nE", 'cat <<"" $({})\n\n',
)  # fmt: skip
_COMPOUND = (
    "ls(){{ {}; }}; ls", "function ls {{ {}; }}; ls", "ls() ({}); ls", "ls()if {}; then :; fi; ls", "shopt -s expand_aliases\nalias ls='{}'\nls", "trap '{}' EXIT", "trap '{}' DEBUG; ls",
    "command_not_found_handle() {{ {}; }}; no-such-program", "coproc {}; wait", "exec {}", "eval {}", "eval 'ev''al \"{}\"'", "source <(echo {})", ". /dev/stdin <<< '{}'", "builtin eval {}", "command {}", "builtin command {}",
    "time {}", "time -p {}", "! {}", "if {}; then :; fi", "if false; then :; else {}; fi", "while {}; do break; done", "until {}; do break; done", "case a in a) {};; esac", "for x in 1; do {}; done", "for ((;;)); do {}; break; done",
    "{{ {}; }}", "({})", "((0)) || {}", "( ( ( {} ) ) )", "bash <<< '{}'", "bash <<E\n{}\nE", "sh <<'E'\n{}\nE", "echo {} | sh", "echo {} | bash -s", "printf '%s\\n' '{}' | sh", "bash -c '{}'", "sh -c \"{}\"", "bash -lc '{}'",
    "/bin/sh -c '{}'", "exec sh -c '{}'", "mapfile -C '{};:' -c 1 x <<< a", "PS4='$({})' bash -xc :", "bash -c 'bash -c \"{}\"'", "x='{}'; $x", "x='{}'; eval \"$x\"", "set -- {}; \"$@\"", "set -- {}; $*", "complete -C '{}' ls; {}",
    "type ls && {}", "true && {{ ls; {}; }} 2>/dev/null", "ls | {{ cat; {}; }}", "ls | while read x; do {}; break; done", "cat notes.txt | (read x; {})", "[[ a ]] && {}", "ENV=x; {}", "typeset -f; {}", "(trap '{}' 0)",
)  # fmt: skip
_SPELLINGS = (
    "$'touch' pwned", "to''uch pwned", 't""ouch pwned', "t\\ouch pwned", "'touch' pwned", '"touch" pwned', "$'\\x74ouch' pwned", "$'\\164ouch' pwned", "$'\\u0074ouch' pwned", '$"touch" pwned', "{touch,pwned}", "x=touch;$x pwned", "tou${e}ch pwned", "tou$@ch pwned",
    "/usr/bin/tou?h pwned", "/???/???/touc[h] pwned", "/usr/bin/touch pwned", "${x:-touch} pwned", "$(echo touch) pwned", "`echo touch` pwned", "x=hcuot; $(echo $x | rev) pwned", "\\touch pwned", "touch\\\n pwned", "to\\\nuch pwned", "touch${IFS}pwned",
    "touch$IFS'pwned'", "touch\tpwned", "  touch  pwned", "$(printf '\\x74ouch') pwned", "$(tr a-z b-za <<< sntbg) pwned", "a=(touch pwned); \"${a[@]}\"", "${PATH:+touch} pwned", "x=xtouch; ${x#x} pwned", "x=TOUCH; ${x,,} pwned", "x=tooch; ${x/oo/ou} pwned", "{,touch} pwned", "tou{ch,}  pwned",
    "echo x>pwned", "echo x >| pwned", "echo x>>pwned", "echo x 1<>pwned", "echo x &>pwned", "echo x &>>pwned", "echo x 1>pwned", "echo x {fd}>pwned", ">pwned ls", ">pwned", "2>pwned ls", "ls 3>pwned", "ls > 'pw'ned", "ls >pw\\ned", "ls >$'pwned'", "ls >&pwned", "ls >/dev/null >pwned",
    "ls 2>/dev/null 1>pwned", "ls >/dev/../$PWD/pwned", "ls >./src/../pwned", "cat notes.txt >pwned", "ls | cat >pwned", ": >pwned", "ls>pwned|cat", "ls <notes.txt >pwned", "echo x >{pwned,}", "cat <<E >pwned\nx\nE", "cp notes.txt pwned", "mv notes.txt pwned", "ln -s x pwned", "ln notes.txt pwned", "install notes.txt pwned",
    "mkdir pwned", "tee pwned </dev/null", "ls | tee pwned", "ls | tee -a pwned", "dd if=/dev/null of=pwned", "truncate -s 1 pwned", "split -b 9 notes.txt pwned; touch pwned", "csplit -sf pwned notes.txt 1; touch pwned", "mkfifo pwned", "mktemp -p . pwnedXXX; touch pwned",
    "sort -o pwned notes.txt", "sort -opwned notes.txt", "sort --output=pwned notes.txt", "sort --ou pwned notes.txt", "sort notes.txt -ro pwned", "sort -uo./pwned notes.txt", "ls | sort -o pwned", "uniq notes.txt pwned", "uniq -c notes.txt pwned", "uniq -- notes.txt pwned", "sed -n 'w pwned' notes.txt", "sed -nw\\ pwned notes.txt",
    "sed -n '1w pwned' notes.txt", "sed s/o/x/wpwned notes.txt", "sed -n -e p -e 'w pwned' notes.txt", "sed '1etouch pwned' notes.txt", "sed 's/.*/touch pwned/e' notes.txt", "sed -ibak s/a/b/ notes.txt; touch pwned", "find . -fprint pwned", "find . -maxdepth 0 -fprintf pwned x", "find . -fls pwned", "find . -fprint0 pwned",
    "find . -maxdepth 0 -exec touch pwned ;x", "find . -maxdepth 0 -exec touch pwned \\;", "find . -maxdepth 0 -execdir touch pwned ';'", "find notes.txt -exec touch pwned {} +", "find . -maxdepth 0 -exec sh -c 'touch pwned' \\;", "find notes.txt -ok touch pwned \\;", "find . -name none -delete -o -exec touch pwned \\; -quit",
)  # fmt: skip
_LAUNCHERS = (
    "env {}", "env -i {}", "env X=1 {}", "env -S '{}'", 'env -S"{}"', "env -u X {}", "env --split-string='{}'", "nice {}", "nice -n 5 {}", "nohup {}", "timeout 5 {}", "timeout -k 1 5 {}", "stdbuf -o0 {}", "setsid {}", "setsid -w {}", "xargs {} </dev/null", "echo pwned | xargs touch", "echo {} | xargs -I% sh -c %", "echo x | xargs -I% {}", "xargs -a notes.txt {}", "ionice {}", "taskset 1 {}", "flock notes.txt {}", "unshare {}", "script -qc '{}' /dev/null", "/usr/bin/time {}", "busybox {}", "busybox sh -c '{}'", "prlimit {}", "setarch -R {}", "awk 'BEGIN {{ system(\"{}\") }}'", "awk 'BEGIN {{ print > \"pwned\" }}'", "awk 'BEGIN {{ \"{}\" | getline }}'", "awk 'BEGIN {{ print | \"{}\" }}'", "perl -e 'system(\"{}\")'", "python3 -c 'import os; os.system(\"{}\")'", "python3 - <<E\nopen('pwned','w')\nE", "ed -s notes.txt <<< '!{}'", "tar cf /dev/null notes.txt --checkpoint=1 --checkpoint-action=exec='{}'", "tar cf /dev/null -I '{}' notes.txt", "split --filter='{}' notes.txt", "sort --compress-program=./x notes.txt", "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch pwned",
)  # fmt: skip
_PROGRAMS = (
    "sudo {}", "doas {}", "parallel {} ::: x", "watch -n 9 '{}'", "chrt 1 {}", "chroot / {}", "strace -o /dev/null {}", "ltrace {}", "time -o /dev/null {}", "runuser -u root -- {}", "su -c '{}'", "systemd-run {}", "at now <<< '{}'", "batch <<< '{}'", "numactl {}", "linux64 {}", "nsenter {}", "proot {}", "fakeroot {}", "dbus-run-session {}", "expect -c 'spawn {}'", "ssh host '{}'", "gawk -f notes.txt", "perl -pi -e s/a/b/ notes.txt; {}", "ruby -e '`{}`'", "node -e 'x'", "php -r 'x'", "lua -e 'x'", "vim -c ':!{}' -c :q", "vi -es notes.txt", "ex notes.txt", "emacs --batch", "tar xf x --to-command='{}'", "rsync -e '{}' a: b", "scp -S '{}' a:b c", "git -c alias.x='!{}' x", "git -c core.pager='{}' -p log", "git -c core.fsmonitor='{}' status", "git -c core.sshCommand='{}' fetch", "git --exec-path=. x", "git grep -O'{}' x", "git bisect run {}", "git submodule foreach '{}'", "git rebase -x '{}' HEAD", "git diff --ext-diff", "git log --textconv", "git difftool -x '{}'", "make -f notes.txt", "make SHELL='{}'", "npm run x", "npx x", "pip install .", "uv run {}", "uvx x", "cargo run", "go run .", "docker run -v /:/host x", "podman run x", "kubectl exec x -- {}", "gdb -batch -ex 'shell {}'", "zip x.zip notes.txt -TT '{}'", "man -P '{}' ls", "less notes.txt", "openssl enc -in notes.txt -out pwned", "curl file:///etc/hosts -o pwned", "wget -O pwned x", "rg --pre ./x one", "rg --hostname-bin ./x one", "rg --search-zip one", "tree -o pwned", "file -C -m notes.txt", "date -s now", "diff --to-file=/etc/passwd notes.txt", "bpftrace -e x", "ls; crontab -", "jq -n 'env'", "sqlite3 x '.shell {}'", "psql -c '\\! {}'", "mysql -e 'system {}'", "gcc -wrapper {} x.c", "ld.so ./x",
)  # fmt: skip
_PREFIXES = (
    "PATH=.:$PATH ls", "PATH=. ls", "LD_PRELOAD=./x.so ls", "LD_LIBRARY_PATH=. ls", "BASH_ENV=notes.txt bash -c :", "ENV=notes.txt sh -c :", "LESSOPEN='|touch pwned' ls", "PAGER='touch pwned' ls", "GIT_PAGER=x ls", "GREP_OPTIONS=-r grep x", "RIPGREP_CONFIG_PATH=x rg one",
    "IFS=/ ls", "TZ=/etc/passwd date", "LC_ALL=C ls", "X= ls", "X+=1 ls", "A=1 B=2 ls", "PYTHONSTARTUP=x ls", "GCONV_PATH=. ls", "LOCPATH=. ls", "MANPAGER=x ls", "TAR_OPTIONS=--to-command=x ls", "HOME=. ls", "POSIXLY_CORRECT=1 ls", "TERMINFO=. ls",
)  # fmt: skip
_READERS = ("cat", "head -n 1", "tail -5", "wc -l", "grep -n .", "sort", "uniq", "cut -c1-9", "od -c", "nl", "md5sum", "diff notes.txt", "sed -n 1p", "rev", "paste", "fold -w 9", "cmp notes.txt")  # fmt: skip
_SECRETS = (
    ".env", "./.env", "src/../.env", ".e*", ".en?", ".[e]nv", "'.env'", ".\\env", "{.env,}", "$PWD/.env", "~/.ssh/id_rsa", "/etc/passwd", "../far.txt", "src/../../far.txt", "link/far.txt", "/proc/self/environ", "/dev/stdin", "keys/id_rsa", "keys/*", "inner.link",
)  # fmt: skip
_LOOKS = (
    "l\u200bs", "ls\u00a0-l", "ls\uff1btouch pwned", "ls\u2028touch pwned", "ls \u202e-l", "ls \U000e0041", "ls\x1b[2K", "ls\x0btouch", "ls\x0ctouch", "ls\x85touch", "ls\rtouch pwned", "ls\x00touch pwned", "ls \x7f", "\u0441at notes.txt", "cat note\u0455.txt\u200d", "ls\ufefftouch", "cat 'notes.txt\n'", "ls \ud800",
    "ls \\", "ls 'x", 'ls "x', "ls $(", "ls `", "ls ${", "ls )", "ls &&", "ls |", "|ls", "&& ls", "ls ;; ls", "ls <", "ls >", "ls <<E", "if ls", "((", "[[", "case x in", "ls; done", "f() {",
)  # fmt: skip
_LARGE = (
    ";".join(["ls"] * 51), "|".join(["cat"] * 60), "echo " + "x" * 9_000, "ls" + " " * 9_000, "( " * 30 + "ls" + " )" * 30, "echo " + "$(" * 12 + "ls" + ")" * 12, "{ " * 30 + "ls;" + " }" * 30, "ls " + "\\\n" * 5_000,
)  # fmt: skip
_NESTS = ("echo $(for x in 1; do {}; done)", "ls && eval \"$(echo '{}')\"", "cat <(cat <({}))", "if :; then (trap '{}' EXIT); fi", "f() {{ g() {{ {}; }}; g; }}; f", "echo ${{x:-$(echo `{}`)}}")  # fmt: skip


def doing() -> list[str]:
    """Command lines that make the file, by the shell's own means and by programs that are everywhere."""
    shapes = (*_JOINTS, *_EXPANSIONS, *_COMPOUND, *_NESTS, *_LAUNCHERS)
    return [shape.format(P, P) for shape in shapes] + list(_SPELLINGS)


def lent() -> list[str]:
    """The same by programs that would do it if they were there; not to be run."""
    return [shape.format(P, P) for shape in _PROGRAMS]


def carried() -> list[str]:
    """Some of them behind, before and within commands that may run unasked."""
    inner = [shape.format(P, P) for shape in (*_EXPANSIONS[:12], *_LAUNCHERS[:12])] + list(_SPELLINGS[::4])
    outer = ("cat notes.txt && {}", "ls | {}", "{}; pwd", "echo ok || {}", "true; ({})")
    return [shape.replace("{}", one) for one in inner if "\n" not in one for shape in outer]


def showing() -> list[str]:
    """Command lines that show what needs leave."""
    return [f"{reader} {secret}" for reader in _READERS for secret in _SECRETS]


def other() -> list[str]:
    """Changed surroundings, looks that deceive, and what is too large or can't be read."""
    return [*_PREFIXES, *_LOOKS, *_LARGE]
