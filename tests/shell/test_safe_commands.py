from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.common.domain import Severity
from tui_agent.shell import grammar, safe_commands
from tui_agent.shell.safe_commands import assess_command, safe_script

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
ls -l | awkward || true
""".strip().splitlines()[:-1]

ASKS = r"""
ls > out.txt
ls >> out.txt
ls >/dev/nullx
ls >/dev/null/x
ls >/dev/sda
ls 2>&1
ls &>out
ls &> out.txt
ls < notes.txt
cat <notes.txt
cat << EOF
cat <<< x
ls &
ls & pwd
ls |& wc
ls | tee out.txt
ls $HOME
ls "$HOME"
ls ${HOME}
ls $(pwd)
ls `pwd`
ls "$(pwd)"
ls "`pwd`"
echo $((1+1))
echo $'a'
echo $"a"
ls ~
ls ~/x
ls ~root
ls {a,b}
echo {1..9}
ls <(pwd)
cat >(wc)
(ls)
{ ls; }
! ls
time ls
if true; then ls; fi
for f in a; do ls; done
while true; do ls; done
case a in a) ls;; esac
f() { ls; }
function f { ls; }
ls # comment
X=1 ls
PATH=. ls
LS_COLORS= ls
[[ -f notes.txt ]]
[ -f notes.txt ]
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
timeout 5 ls
xargs ls
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
find . -name *.py
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
sed s/a/b/ notes.txt
sed -n '1,5w out' notes.txt
sed -n 1e notes.txt
sed -n '1p;w out' notes.txt
sed -n 1p /etc/passwd
sed -n 1p -i notes.txt
awk '{print}' notes.txt
perl -e 1
python -c 1
python3 -V
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
cd src
cd src && ls
export A=1
alias ls=rm
unset PATH
set -x
which ls
type ls
hash ls
ls*
l?
*
echo *
echo [a-z]*
tr a* b
basename *.txt
grep a* notes.txt
head -n * notes.txt
cat src/**/x
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
ls >&2
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
echo a#b
echo a~b
echo hi!
""".strip().splitlines()

UNUSUAL = [
    "ls\nrm x",
    "ls\rrm x",
    "ls\n",
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
    "ls \\\n-la",
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


def secret(path: Path) -> bool:
    return path.name in (".env", "id_rsa")


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


def test_patterns_are_expanded(place: Path) -> None:
    found = safe_script("wc -l *.txt src/*.py none*", place, [place / ".."])
    assert found is not None
    assert found[0].pipeline[0].argv == ("wc", "-l", "a file.txt", "link.txt", "notes.txt", "src/main.py", "none*")


def test_pattern_is_expanded_only_once(place: Path) -> None:
    clean_place(place)

    def planting(path: Path) -> bool:
        (place / "src" / "late.txt").symlink_to("/etc/passwd") if not planted else None
        planted.append(path)
        return False

    planted: list[Path] = []
    found = safe_script("cat src/*", place, [place], planting)
    assert planted and (place / "src" / "late.txt").is_symlink()
    assert found is not None and "src/late.txt" not in found[0].pipeline[0].argv


def test_program_in_the_workspace_is_not_used(tmp_path: Path) -> None:
    assert safe_script("ls", Path("/usr/bin"), [Path("/usr"), Path("/bin")]) is None


def test_programs_are_absolute_and_operators_preserved(place: Path) -> None:
    found = safe_script("ls | wc -l && pwd || echo no; date 2>/dev/null", place, [place])
    assert found is not None
    assert [step.operator for step in found] == ["", "&&", "||", ";"]
    assert all(os.path.isabs(stage.program) for step in found for stage in step.pipeline)
    assert found[3].pipeline[0].discards_stderr and not found[3].pipeline[0].discards_stdout


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
    steps = grammar.parse_strict(command)
    assert steps is not None
    words = steps[0][1][0].words
    shape = safe_commands.argument_shape(words[0].text, words[1:])
    assert shape is None or words[-1] in shape.paths
    assert not assess_command(command, place, [place], secret).safe


@pytest.mark.parametrize(
    ("words", "hidden"),
    [("x", False), ("-t sh x", False), ("-g .env x", True), ("--iglob=*.ENV x", True), ("-ig .* x", True)],
)
def test_ripgrep_searches_hidden_files_only_if_that_is_checked(words: str, hidden: bool) -> None:
    # `!.env` in a .ignore file, or a type that names hidden files, would bring them in
    shape = safe_commands.argument_shape("rg", tuple(grammar.PlainWord(word) for word in words.split()))
    assert shape is not None
    assert shape.prefix == ("--no-config", "--glob=!.*")
    assert shape.includes_hidden is hidden


@pytest.mark.needs("rg")
def test_ripgrep_ignores_its_configuration(place: Path) -> None:
    found = safe_script("rg one src", place, [place], secret)
    if found is None:  # installed, but not where programs are looked for
        pytest.skip("rg is not in a system folder")
    assert found[0].pipeline[0].argv[:2] == ("rg", "--no-config")


def test_every_entry_of_the_allow_list_is_valid() -> None:
    words = (grammar.PlainWord("+1"), grammar.PlainWord("-n"), grammar.PlainWord("x"))
    for name in safe_commands.safe_table():
        for size in range(4):
            safe_commands.argument_shape(name, words[:size])


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
    steps = grammar.parse_strict("printf " + text)
    if steps is None or len(steps[0][1]) > 1 or any(w.is_pattern for w in steps[0][1][0].words):
        return
    words = [word.text for word in steps[0][1][0].words[1:]]
    run = ["bash", "--norc", "-c", f"f() {{ printf '%s\\0' \"$@\"; }}; f {text}"]
    out = subprocess.run(run, executable=BASH, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
    assert out.decode().split("\0")[:-1] == (words or [""])


@given(st.text(max_size=60) | st.lists(PIECES, max_size=20).map("".join))
def test_any_text_is_assessed_without_an_error(text: str) -> None:
    assess_command(text, Path("/tmp"), [Path("/tmp")])
