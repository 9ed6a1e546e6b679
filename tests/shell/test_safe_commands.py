from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.common.domain import Severity
from tui_agent.platform import git
from tui_agent.safety.roots import Roots
from tui_agent.shell import readable
from tui_agent.shell.argument_lists import ArgumentLists, Prepared
from tui_agent.shell.interpreter import check_script
from tui_agent.shell.safe_arguments import NotSafe, argument_shape, read_arguments, safe_table
from tui_agent.shell.safe_commands import assess_command, safe_script
from tui_agent.shell.script import Simple
from tui_agent.shell.strict_reader import parse_strict

RUNS = r"""
ls
ls -la
ls -lah src
ls src/ notes.txt
ls -R .
ls --color=never -1
ls n*.txt
ls src/*.py
ls 'a file.txt'
ls a\ file.txt
ls -l -- src
pwd
cat notes.txt
cat -n notes.txt src/main.py
cat ./src/main.py
cat src/**
cat src/../notes.txt
cat missing.txt
cat "notes.txt"
head notes.txt
head -5 notes.txt
head -n 20 src/main.py
head -c 100 notes.txt
tail -n 3 notes.txt
tail -n +5 notes.txt
tail -20 notes.txt
wc -l notes.txt
wc -l src/*.py
wc notes.txt src/main.py
grep -n def src/main.py
grep -rn "def main" src
grep -r --include='*.py' main .
grep -c 'a|b' notes.txt
grep -E "^import|^from" src/main.py
grep -A3 -B 2 main src/main.py
grep -i -e one -e two notes.txt
grep -nrIw TODO src
grep --line-number --ignore-case x notes.txt
find . -name '*.py'
find src -type f -name "*.py" -print
find . -maxdepth 2 -type d
find . -not -path './src/*' -name x
find . ! -name x
find . \( -name a -o -name b \)
find . -newer notes.txt -size +1k
sort notes.txt
sort -u -k2,2 -t , notes.txt
sort -rn notes.txt | head -5
uniq -c notes.txt
sort notes.txt | uniq -c | sort -rn
cut -d, -f1 notes.txt
cut -c1-10 notes.txt
cat notes.txt | tr a-z A-Z
cat notes.txt | tr -d '\r'
stat notes.txt
stat -c %s notes.txt
file notes.txt
echo hello world
echo "a && b; c | d > e"
echo -n x
echo 'rm -rf /'
printf '%s\n' a b
date
date +%Y-%m-%d
date -u '+%H:%M'
basename src/main.py .py
dirname src/main.py
diff notes.txt src/main.py
diff -u notes.txt src/main.py
cmp notes.txt src/main.py
du -sh src
du -h --max-depth=1 .
df -h .
sed -n '1,10p' notes.txt
sed -n 5p notes.txt
ls && pwd
ls; pwd
ls ; pwd ;
ls || echo none
ls missing 2>/dev/null
ls missing 2> /dev/null || true
ls >/dev/null && echo there
cat notes.txt 2>/dev/null | wc -l
cat notes.txt | grep -v '^#' | wc -l
find . -name '*.py' | wc -l
find . -type f | sort | head -n 20
uname -a
id -u
seq 1 5
nl notes.txt
od -c notes.txt
md5sum notes.txt
realpath src
cat /dev/null
cat -
grep --color=auto x notes.txt
ls 2>&1
ls < notes.txt
cat <notes.txt
cat <<< x
ls |& wc
ls $(pwd)
ls "$(pwd)"
echo $((1+1))
ls {a,b}
echo {1..9}
(ls)
{ ls; }
! ls
if true; then ls; fi
for f in a; do ls; done
ls # comment
[[ -f notes.txt ]]
[ -f notes.txt ]
timeout 5 ls
ls --help
xargs ls
find . -name *.py
sed s/a/b/ notes.txt
awk '{print}' notes.txt
python3 -V
cd src
cd src && ls
which ls
type ls
echo *
echo [a-z]*
tr a* b
basename *.txt
grep a* notes.txt
ls >&2
echo a#b
echo a~b
echo hi!
ls -l | awkward || true
""".strip().splitlines()[:-1]

ASKS = r"""
ls > out.txt
ls >> out.txt
ls >/dev/nullx
ls >/dev/null/x
ls >/dev/sda
ls &>out
ls &> out.txt
cat << EOF
ls &
ls & pwd
ls | tee out.txt
ls $HOME
ls "$HOME"
ls ${HOME}
ls `pwd`
ls "`pwd`"
echo $'a'
echo $"a"
ls ~
ls ~/x
ls ~root
ls <(pwd)
cat >(wc)
time ls
while true; do ls; done
case a in a) ls;; esac
f() { ls; }
function f { ls; }
X=1 ls
PATH=. ls
LD_PRELOAD=x ls
LC_ALL=C ls
LC_ALL=C PATH=. ls
LC_ALL=C X=1 ls
LC_ALL=$(pwd) ls
LC_ALL="C" ls
TZ=/etc/passwd date
TZ=../x date
PAGER=less git log
LC_ALL=C awkward
LC_ALL=C
env
env LC_ALL=C
env -i ls
env PATH=. ls
env LC_ALL=C env
LC_ALL=C cd src
LS_COLORS= ls
eval ls
exec ls
command ls
builtin pwd
source notes.txt
. notes.txt
env ls
env
nohup ls
nice ls
find . | xargs cat
sudo ls
bash -c ls
sh notes.txt
./ls
src/ls
/bin/ls
../ls
\ls -la /
cat /etc/passwd
cat ../outside.txt
cat src/../../outside.txt
cat link.txt
cat linkdir/outside.txt
ls linkdir
ls ..
ls /
ls /etc
grep x /etc/hosts
grep -f /etc/passwd notes.txt
grep -f../outside.txt notes.txt
find / -name x
find .. -name x
find . -newer /etc/passwd
wc -l /etc/*
head -n 5 ../outside.txt
tail ../outside.txt
stat /etc/passwd
diff notes.txt /etc/passwd
du -sh /
df /
cat .env
cat ./.env
cat src/../.env
cat keys/id_rsa
cat keys/*
head .e?v notes.txt
grep KEY .env
grep -r KEY .
grep -r KEY
grep -rn KEY keys
grep -R x src
grep --dereference-recursive x src
grep -d recurse x src
grep --directories=recurse x src
grep --exclude-from=/etc/passwd x notes.txt
grep
tail -f notes.txt
tail -F notes.txt
tail --follow notes.txt
tail --pid=1 notes.txt
sort -o out.txt notes.txt
sort -oout.txt notes.txt
sort --output=out.txt notes.txt
sort --outp out.txt notes.txt
sort -T /tmp notes.txt
sort --compress-program=sh notes.txt
sort --files0-from=notes.txt
sort -S 90% notes.txt
sort notes.txt -o out.txt
uniq notes.txt out.txt
uniq -c notes.txt out.txt
wc --files0-from=notes.txt
du --files0-from=notes.txt
du -L .
ls -L
find . -exec cat {} ;
find . -exec cat {} \;
find . -execdir ls \;
find . -ok ls \;
find . -okdir ls \;
find . -delete
find . -fprint out
find . -fprintf out x
find . -fls out
find . -fprint0 out
find -L . -name x
find . -follow
find -H src
find -files0-from notes.txt
file -C
file -C -m notes.txt
file -m notes.txt notes.txt
file -f notes.txt
file -z notes.txt
file -L link.txt
date -s 2020-01-01
date --set=2020-01-01
date 010100002025
date -f notes.txt
date -f /etc/passwd
date -r /etc/passwd
tree -o out
tree -l
tree --fromfile notes.txt
tree -R -H . -L 1
printf -v x y
printf
printf '-v' x y
sed -i s/a/b/ notes.txt
sed -n '1,5w out' notes.txt
sed -n 1e notes.txt
sed -n '1p;w out' notes.txt
sed -n 1p /etc/passwd
sed -n 1p -i notes.txt
perl -e 1
python -c 1
less notes.txt
more notes.txt
man ls
vi notes.txt
git status
git log
git diff
git -c core.pager=x log
rg --pre cat x
rg -L x
rg --hidden x
rg -uu x
rg -z x
rg --search-zip x
rg --hostname-bin x y
rg x ..
curl example.com
wget example.com
dig example.com
ping example.com
host example.com
nslookup example.com
ssh host ls
make
pytest
npm test
ruff check
cargo check
rm notes.txt
mv notes.txt x
cp notes.txt x
touch x
mkdir x
chmod +x notes.txt
ln -s a b
tee out
kill 1
dd if=notes.txt
export A=1
alias ls=rm
unset PATH
set -x
hash ls
ls*
l?
*
head -n * notes.txt
ls --hyperlink=always
ls -Z
ls --no-such
ls *.txt
cat proclink/notes.txt
cat /proc/self/cwd/notes.txt
cat -x notes.txt
od --format=x --width notes.txt -z
md5sum -c notes.txt
md5sum --check notes.txt
ls 'unclosed
ls "unclosed
ls \
ls |
| ls
ls | | wc
ls &&
&& ls
ls ;; pwd
; ls
ls && && pwd
ls || ; pwd
>/dev/null
>/dev/null ls
2>/dev/null
ls 3>/dev/null
ls >| /dev/null
ls >/dev/null2
ls <>/dev/null
ls 2>>/dev/null
cat fifo
cat /dev/zero
cat /dev/stdin
cat /proc/self/environ
cat /dev/tcp/127.0.0.1/80
diff src src
diff -r src keys
diff --from-file=notes.txt src/main.py
cmp notes.txt src
hostname new
seq 1 9999999
uname extra
id root
pwd extra
tac -s x ../outside.txt
paste notes.txt ../outside.txt
comm notes.txt ../outside.txt
nl ../outside.txt
readlink -f ../outside.txt
""".strip().splitlines()

UNUSUAL = [
    "ls\nrm x",
    "ls\rrm x",
    "ls\t-la",
    "ls\x00",
    "ls \x1b[2K",
    "cat notes.txt\u202e",
    "cat \u200bnotes.txt",
    "ls\u2028pwd",
    "ls\u00a0-la",
    "cat \U000e0041",
    "",
    " ",
    "   ;",
    "cat \udcff",
    "echo " + "a" * 9000,
    "ls" + "; ls" * 60,
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text("outside\n")
    workspace = tmp_path / "work"
    (workspace / "src").mkdir(parents=True)
    (workspace / "keys").mkdir()
    for name in ("notes.txt", "a file.txt", "src/main.py", ".env", "keys/id_rsa"):
        (workspace / name).write_text("one\ntwo\n")
    (workspace / "link.txt").symlink_to(tmp_path / "outside.txt")
    (workspace / "linkdir").symlink_to(tmp_path)
    (workspace / "proclink").symlink_to("/proc/self/cwd")
    os.mkfifo(workspace / "fifo")
    return workspace


def secret(path: str) -> bool:
    return path.endswith(("/.env", "/id_rsa"))


def clean_place(place: Path) -> None:
    """Without credentials, so that recursive searches of the folder are free."""
    (place / ".env").unlink()
    (place / "keys" / "id_rsa").unlink()


def test_tables_have_the_required_size() -> None:
    assert len(RUNS) >= 60
    assert len(ASKS) + len(UNUSUAL) >= 150


@pytest.mark.parametrize("command", RUNS)
def test_safe_commands(place: Path, command: str) -> None:
    clean_place(place)
    assert safe_script(command, place, [place], secret) is not None
    running = assess_command(command, place, [place], secret)
    assert running.safe and running.severity is Severity.NONE and not running.always_ask


@pytest.mark.parametrize("command", ASKS)
def test_asks(place: Path, command: str) -> None:
    assert safe_script(command, place, [place], secret) is None
    assert not assess_command(command, place, [place], secret).safe


@pytest.mark.parametrize("command", UNUSUAL, ids=range(len(UNUSUAL)))
def test_unusual_text_needs_approval(place: Path, command: str) -> None:
    assert not assess_command(command, place, [place], secret).safe


def test_folder_outside_the_roots_is_never_safe(place: Path) -> None:
    assert safe_script("ls", place.parent, [place]) is None
    assert safe_script("pwd", Path("/"), [place]) is None


@pytest.mark.parametrize("command", ["ls", "cat .bashrc", "make", "sed -i s/a/b/ .bashrc"])
def test_command_in_a_folder_outside_always_needs_approval(place: Path, command: str) -> None:
    (place / "away").symlink_to(place.parent)
    for folder in (place.parent, place / "away", Path("/")):
        running = assess_command(command, folder, [place])
        assert running.always_ask and "outside" in running.reasons[-1]
    assert not assess_command(command, place / "src", [place]).always_ask


def test_another_root_is_inside(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert safe_script(f"ls {other}", place, [place]) is None
    assert safe_script(f"ls {other}", place, [place, other]) is not None


def test_a_root_of_a_similar_name_is_outside(place: Path) -> None:
    (place.parent / "work2").mkdir()
    assert safe_script("ls ../work2", place, [place]) is None


def test_search_of_a_folder_with_credentials_needs_approval(place: Path) -> None:
    assert safe_script("grep -r one src", place, [place], secret) is not None
    assert safe_script("grep -r one .", place, [place], secret) is None
    clean_place(place)
    assert safe_script("grep -r one .", place, [place], secret) is not None


def test_pattern_that_matches_an_option_needs_approval(place: Path) -> None:
    assert safe_script("sort *", place / "src", [place]) is not None
    (place / "src" / "-o").write_text("")
    assert safe_script("sort *", place / "src", [place]) is None


def argument_lists(command: str, cwd: Path, roots: list[Path]) -> list[tuple[str, ...]]:
    """The programs of a safe command with their arguments."""
    found = safe_script(command, cwd, roots, secret)
    assert found is not None, command
    lists = []
    inner = ArgumentLists.prepare

    def noting(self: ArgumentLists, argv: list[str], *args: Any, **options: Any) -> Prepared:
        prepared = inner(self, argv, *args, **options)
        lists.append((prepared.program, *prepared.argv[1:]))
        return prepared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArgumentLists, "prepare", noting)
        check_script(found)
    return lists


def test_patterns_are_expanded(place: Path) -> None:
    found = argument_lists("wc -l *.txt src/*.py none*", place, [place / ".."])
    assert found[0][1:] == ("-l", "a file.txt", "link.txt", "notes.txt", "src/main.py", "none*")


def test_pattern_is_expanded_only_once(place: Path) -> None:
    clean_place(place)

    def planting(path: str) -> bool:
        (place / "src" / "late.txt").symlink_to("/etc/passwd") if not planted else None
        planted.append(path)
        return False

    planted: list[str] = []
    found = safe_script("cat src/*", place, [place], planting)
    assert found is not None and planted and (place / "src" / "late.txt").is_symlink()
    assert found.readable.expand(place, "src/*") == ["src/main.py"]


def test_program_in_the_workspace_is_not_used() -> None:
    assert safe_script("ls", Path("/usr/bin"), [Path("/usr"), Path("/bin")]) is None


def test_programs_are_absolute(place: Path) -> None:
    clean_place(place)
    lists = argument_lists("ls | wc -l && cat notes.txt || grep x notes.txt; timeout 5 ls", place, [place])
    assert len(lists) == 6 and all(os.path.isabs(words[0]) for words in lists)


@pytest.mark.parametrize(
    "command",
    [
        "od -c -w .env",
        "od -w /etc/passwd",
        "head -20c .env",
        "tail -5c /etc/passwd",
        "tree -Lo 1 out.txt",
        "tree -Po x out.txt",
        "tree -L1o out.txt",
    ],
)
def test_file_is_not_mistaken_for_an_option_value(place: Path, command: str) -> None:
    clean_place(place)
    (place / ".env").write_text("KEY=1")
    name, *words = command.split()
    try:
        shape = argument_shape(name, words)
    except NotSafe:
        pass
    else:
        assert words[-1] in shape.reads
    assert not assess_command(command, place, [place], secret).safe


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        ("x", False),
        ("-t sh x", False),
        ("-g .env x", True),
        ("--iglob=*.ENV x", True),
        ("-ig .* x", True),
        ("-g !a x", False),
    ],
)
def test_ripgrep_searches_hidden_files_only_if_that_is_checked(words: str, hidden: bool) -> None:
    # `!.env` in a .ignore file, or a type that names hidden files, would bring them in
    shape = argument_shape("rg", words.split())
    assert shape.prefix == ("--no-config", "--glob=!.*")
    assert shape.search is not None and shape.search.hidden is hidden


@pytest.mark.parametrize(
    ("globs", "free"),
    [
        ("-g '*.py'", True),
        ("-g '!dist' -g 'src/**/*.{py,ts}'", True),
        ("-g '*'", False),
        ("-g '*.py' -g '.e*'", False),
        ("-g '{a,.env}'", False),
        ("-g '[.]env'", False),
        ("--iglob '*.ENV'", False),
    ],
)
def test_globs_of_ripgrep_limit_what_it_reads(place: Path, globs: str, free: bool) -> None:
    assert assess_command(f"rg {globs} x", place, [place], secret).safe is free


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("grep -rn -e a/b src", "pattern=a/b operand=src"),
        ("grep -rf list x", "path=list operand=x"),
        ("grep -r KEY src", "pattern=KEY operand=src"),
        ("grep -q.env --include=.env x -- -y", "unknown=-q.env text=.env pattern=x operand=-y"),
        ("rg -r KEY word src", "text=KEY pattern=word operand=src"),
        ("sed -i.bak s/a/b/ x", "pattern=s/a/b/ operand=x"),
        ("sed -n -e /a/p -f list x", "pattern=/a/p path=list operand=x"),
        ("awk -F : {print} x -f", "text=: pattern={print} operand=x operand=-f"),
        ("find src -name .env -newer x -fprint y", "operand=src text=.env path=x unknown=-fprint unknown=y"),
        ("sort -uo out -k 2 in", "output=out text=2 operand=in"),
        ("uniq -c in out", "operand=in output=out"),
        ("tar czf x.tgz src", "path=x.tgz operand=src"),
        ("jq --arg a b . x", "text=a text=b pattern=. operand=x"),
        ("yq -p props .env", "text=props operand=.env"),
        ("yq -r .a x", "pattern=.a operand=x"),
        ("go test -run TestA ./...", "operand=test text=TestA operand=./..."),
        ("pytest -k .env -x tests", "text=.env unknown=-x operand=tests"),
        ("frobnicate --key .env", "unknown=--key operand=.env"),
    ],
)
def test_arguments_of_any_program_are_told_apart(command: str, found: str) -> None:
    name, *words = command.split()
    assert " ".join(f"{role}={text}" for role, text in read_arguments(name, words).found) == found


def test_a_search_follows_links_once_per_folder_and_asks_git_twice(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (project / "src" / f"m{number}.py").write_text("one\n")
    for arguments in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=project, check=True)
    for number in range(200):
        (project / "src" / f"m{number}.py").write_text("two\n")
    calls: Counter[str] = Counter()

    def counted(module: ModuleType, name: str) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **options: calls.update([name]) or original(*args, **options))

    counted(readable, "follow_links")
    counted(git, "run_program")
    for command in ("grep -r one .", "find . -name '*.py' | xargs wc -l", "git diff", "git log -p"):
        assert assess_command(command, project, [project], Roots([project]).names_credentials, git=True).safe, command
    assert calls["follow_links"] < 100
    assert calls["run_program"] == 4


def test_ripgrep_ignores_its_configuration(place: Path) -> None:
    assert argument_lists("rg one src", place, [place])[0][1] == "--no-config"


def test_every_entry_of_the_allow_list_is_valid() -> None:
    words = ("+1", "-n", "x")
    for name in safe_table():
        for size in range(4):
            with contextlib.suppress(NotSafe):
                argument_shape(name, words[:size])


@pytest.mark.parametrize("command", ["tar czf out.tgz src", "cp -r src copy", "diff -r src docs", "grep -r x s*"])
def test_links_in_a_folder_that_is_copied_are_no_credentials(project: Path, command: str) -> None:
    (project / "src" / "link.py").symlink_to("app.py")
    (project / "src" / "folder").symlink_to("api")
    assert assess_command(command, project, [project], secret).credentials == ()
    (project / "src" / "settings").symlink_to("../.env")
    (project / ".env").write_text("KEY=1")
    assert assess_command(command, project, [project], secret).credentials == (f"{project}/src/settings",)


def test_a_hard_link_to_credentials_is_one_of_their_names(place: Path) -> None:
    os.link(place / ".env", place / "settings.txt")
    os.link(place / "notes.txt", place / "copy.txt")
    assert safe_script("cat settings.txt", place, [place], secret) is None
    assert safe_script("cat copy.txt", place, [place], secret) is not None


FAMILIES = json.loads((Path(__file__).parent / "safe_families.json").read_text())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("src/api", "tests", "docs", "packages/web", "config", "frontend"):
        (tmp_path / "app" / folder).mkdir(parents=True)
    (tmp_path / "app" / "src" / "app.py").write_text("one\n")
    return tmp_path / "app"


@pytest.mark.parametrize("family", FAMILIES["runs"])
def test_reading_commands_run_unasked(project: Path, family: str) -> None:
    roots = Roots([project])
    asked = [
        command
        for command in FAMILIES["runs"][family]
        if not assess_command(command, project, [project], roots.holds_credentials, git=True).safe
    ]
    assert asked == []


@pytest.mark.parametrize("family", FAMILIES["asks"])
def test_commands_that_only_look_like_reading_ask(project: Path, family: str) -> None:
    roots = Roots([project])
    unasked = [
        command
        for command in FAMILIES["asks"][family]
        if assess_command(command, project, [project], roots.holds_credentials, git=True).safe
    ]
    assert unasked == []


def test_git_asks_in_a_folder_that_is_not_trusted(project: Path) -> None:
    assert not assess_command("git status", project, [project]).safe


@pytest.mark.parametrize(
    "command",
    [
        "for a in {1..99}; do for b in {1..99}; do echo $a$b; done; done",
        "echo {1..99}{1..99}{1..99}{1..99}{1..99}",
        "x=aaaaaaaaaaaaaaaaaaaaaaaa; " + "x=$x$x$x$x$x$x$x$x; " * 12 + "echo $x",
        "awk 'BEGIN{while(1)x=x \"aaaaaaaaaaaaaaaa\"}'",
        "jq -n '[repeat(1)]'",
    ],
)
def test_a_command_that_grows_without_bound_asks(place: Path, command: str) -> None:
    assert safe_script(command, place, [place]) is None


PIECES = st.sampled_from(
    [
        "ls",
        "cat",
        "'",
        '"',
        "\\",
        "|",
        "||",
        "&&",
        ";",
        "&",
        ">",
        "2>/dev/null",
        ">/dev/null",
        "$x",
        "`",
        "(",
        ")",
        "*",
        "~",
        "#",
        "!",
        "{a,b}",
        "a",
        "-n",
        "notes.txt",
        "=",
        "<",
        "[",
        "]",
        "é",
        " ",
        "  ",
        "\n",
    ]
)
BASH = "/bin/bash"


@given(
    st.lists(st.sampled_from(["a", "b c", "'", '"', "\\", " ", "|", "-x", "é", "%", "=", ",", "]"]), max_size=10).map(
        "".join
    )
)
@settings(max_examples=40, deadline=None)
def test_words_agree_with_bash(text: str) -> None:
    script = parse_strict("printf " + text)
    if script is None or len(script) > 1 or len(script[0].pipeline.commands) > 1:
        return
    command = script[0].pipeline.commands[0]
    assert isinstance(command, Simple)
    words = [word.literal for word in command.words[1:]]
    run = ["bash", "--norc", "-c", f"f() {{ printf '%s\\0' \"$@\"; }}; f {text}"]
    out = subprocess.run(run, executable=BASH, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
    assert out.decode().split("\0")[:-1] == (words or [""])


@given(st.text(max_size=60) | st.lists(PIECES, max_size=20).map("".join))
def test_any_text_is_assessed_without_an_error(text: str) -> None:
    assess_command(text, Path("/tmp"), [Path("/tmp")])
