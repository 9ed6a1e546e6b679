from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tui_agent.engine.checks.request_reading import list_items, read_request, removable_names, request_kind

JOBS = Path(__file__).resolve().parents[2] / "benchmarks/real_model/jobs.yaml"

WITH_LIMITS = """
Make the attribute name of class User in user.py read-only.
Add type hints to area() in shapes.py, but do not change the code otherwise.
Add docstrings to all functions in util.py. Do not change the code.
Rename area to surface in geo.py; no changes in behaviour.
Write tests for parse in test_parse.py. Don't touch any files in src.
Don't change any files but calc.py. Fix the bug there.
Fix the typo in README.md. Don't edit the code.
Without changing the code, add a section on installing to README.md.
Set debug to false in config.json. Make no other changes.
Set debug to false in config.json. Do not change anything else.
Open the file in read-only mode in store.py.
Add a read-only property full_name to Person in person.py.
Fix add in calc.py and just tell me what you changed.
Never touch the tests; repair calc.py.
Do not edit test_calc.py, only fix calc.py.
Leave the signature alone and make parse() in parse.py faster.
Add an option --dry-run to sync.py: with it, do not write any files.
Make clean() in disk.py delete nothing when the list is empty.
""".strip().splitlines()

ORDERS = """
Could we get a --verbose flag in cli.py?
Can you add a test for parse()?
Could you please rename calc to gross in prices.py?
Would you mind adding a docstring to area() in shapes.py?
How about renaming calc to gross_price in prices.py?
Can we have a dark theme in style.css?
Why don't you replace the loop in calc.py by sum()?
I want you to remove the debug prints from app.py.
I want a --quiet option in cli.py.
I need a function median(values) in stats.py.
I'd like the output of report.py to be sorted.
We should use pathlib in files.py.
We need to handle empty input in parse().
Please increase the limit in limits.py to 50.
It would be nice if greet.py greeted in upper case.
It would be great to have a --version flag in cli.py.
A docstring is missing in shapes.py.
There should be a test for parse in test_parse.py.
The total in cart.py is wrong.
The total is wrong in cart.py, it ignores the discount.
parse() crashes on empty input.
The README lacks a section on installing.
The sort option of list.py does not work.
The function calc in prices.py needs a better name.
cli.py doesn't accept --verbose.
mean([]) in stats.py fails with ZeroDivisionError.
last([1]) in lists.py raises IndexError.
calc in shop/prices.py is to be renamed to gross_price.
README.md has a typo in the first line.
There is a bug in calc.py.
Two bugs are in stack.py: pop returns the oldest item, fix both.
The class Stack in stack.py has two bugs, please fix them.
Increase the timeout in config.json to 30.
Put a link to docs.md into README.md.
Trim the text in clean() of text.py.
Include the year in the title of report.py.
Lower the default timeout in client.py to 5 seconds.
Raise the limit in limits.py.
Bleach the colours in theme.css.
Cache the result of load() in store.py.
Log every request in server.py.
Lowercase the names in users.py before comparing.
Print a warning in cli.py when the file is missing.
Show a spinner in app.js while loading.
Read the port from the environment in config.py.
Compare names case-insensitively in sort.py.
Call close() at the end of run() in db.py.
Check that b is not zero in div() of calc.py and raise ValueError if it is.
Validate the email in users.py.
Build a function that counts words in text.py.
Start counting at 1 in pages.py.
In calc.py, swap the arguments of sub.
In calc.py rename add to plus.
If the list is empty, return 0 from mean() in stats.py.
When the list is empty, return 0 from mean() in stats.py.
Where possible, use f-strings in app.py.
Get rid of the global variable in state.py.
Combine load_a and load_b in store.py into one function.
Turn Point in point.py into a dataclass.
Return None instead of raising in find() of store.py.
Review calc.py and fix the bugs.
Look at calc.py and correct what is wrong.
Check calc.py for errors and repair them.
The test in test_calc.py fails. Find the bug in calc.py, fix it and run the tests.
Find unused imports in app.py and remove them.
Explain what is wrong in calc.py, then fix it.
What does add in calc.py do? Add a docstring that says so.
Why does calc.py fail? Fix it.
add(2, 3) in calc.py returns -1. Can you fix it?
Can you find out why add in calc.py fails and fix it?
Write a summary of the project to SUMMARY.md.
Generate a list of all functions in app.py and save it to api.md.
Create an overview of the modules in docs/overview.md.
Give the function add in calc.py a docstring.
Write a description of the options into the README.
Explain the options of cli.py in README.md by a table, and add an example to README.md.
Do the same for subtract in calc.py.
Make it so that `python3 div.py 1 0` ends with status 1.
Hi, please add a --json option to cli.py.
Hello! Rename total to grand_total in cart.py.
Run the tests and fix what fails in calc.py.
Describe timer.py in README.md in two sentences.
calc.py: add returns the wrong sum
Comment the code in calc.py.
Fetch the prices in shop.py only once.
Add the question "What is your name?" to quiz.py.
""".strip().splitlines()

QUESTIONS = """
Explain the add and remove methods of Cart in cart.py.
Explain the load and save functions in store.py.
List the functions in io_tools.py that read and write files.
Tell me which functions in users.py create and delete users.
List the functions in io_tools.py that open a file and close it.
main.py crashes with KeyError when I pass --x. Why?
add(2, 3) in calc.py returns -1. Why?
add(2, 3) in calc.py should return 5. Why does it return -1?
The total in cart.py is wrong. What is the cause?
Give me a summary of README.md.
Give me an overview of the project.
Generate a list of all functions in app.py.
Write a short explanation of cache.py.
Create a summary of the changes in app.py.
Give me an example of how to call add in calc.py.
Give me a list of the functions in calc.py.
Give me the signature of add in calc.py.
Show the contents of README.md.
Can I use add in calc.py with strings?
Review calc.py.
Critique the naming in shop/prices.py.
Look at calc.py.
Have a look at calc.py, please.
Check calc.py for bugs.
Check whether add in calc.py handles negative numbers.
Inspect the imports of app.py.
Analyse the complexity of sort() in sort.py.
Audit login.py.
Please review cart.py and tell me what you think.
Explain how add and remove work in cart.py.
Explain how to open the file and close it with store.py.
Describe the commands add, list and delete of cli.py.
Compare add and remove in cart.py.
Summarize README.md.
What do load and save in store.py do?
Which functions use calc, and where are they? Change nothing.
Find out why test_calc.py fails. Don't fix it.
calc.py crashes on empty input. Do not change anything, just explain.
How do I rename a function in shop/prices.py and use it?
Could you tell me what add in calc.py does?
Can you explain cart.py to me?
Would you mind explaining calc.py?
I don't understand calc() in prices.py.
I want to know which function in dates.py parses a date.
I'd like an overview of the project.
Show me the functions in calc.py.
Show the functions in calc.py.
Is add in calc.py correct?
Does calc.py handle the empty list?
Explain calc.py. Use simple words.
List all functions in app.py. Sort them by name.
Explain what parse() does and how it reads and writes the file.
Suggest a better name for calc in prices.py.
add.py and remove.py: what are they for?
Where is the timeout set in client.py?
Explain how you would fix the bug in calc.py. Do not edit any files.
Which function turns a text into a date, and in which file is it? Change nothing.
Read calc.py and tell me what it does.
Let me know which tests cover parse().
""".strip().splitlines()

COMMANDS = """
Run the tests and tell me whether they pass.
Run the tests.
Run the tests. Do they pass?
Run `python3 main.py` and tell me what it prints.
Please run pytest.
Could you run the tests?
Start the server.
Check that the tests pass.
Build the project.
Execute main.py.
Lance les tests.
Führe die Tests aus.
""".strip().splitlines()

OPEN = """
hello
Yes, do that.
Thanks
Go on
Write a haiku.
Fetch the library
Trust this folder
open README.md
ok?
""".strip().splitlines()

OTHER_ORDERS = """
Benenne die Funktion calc in shop/prices.py in gross_price um.
Bitte benenne calc in shop/prices.py um.
Füge eine Funktion is_even(n) zu calc.py hinzu.
Ändere den Port in config.json auf 9090.
Behebe den Fehler in calc.py.
Könntest du bitte eine Option --upper zu greet.py hinzufügen?
Kannst du calc in prices.py umbenennen?
Ich möchte eine Option --upper in greet.py.
mean([]) in stats.py soll einen ValueError werfen.
In README.md fehlt ein Abschnitt über die Installation.
Erkläre den Fehler in calc.py und behebe ihn.
Ajoute une fonction is_even(n) à calc.py.
Renomme calc en gross_price dans shop/prices.py.
Corrige le bug dans calc.py.
Peux-tu ajouter une option --upper à greet.py ?
Il faut renommer calc dans prices.py.
Añade una función is_even(n) a calc.py.
Renombra calc a gross_price en shop/prices.py.
Corrige el error en calc.py.
¿Puedes añadir una opción --upper a greet.py?
Cambia el puerto en config.json a 9090.
Aggiungi una funzione is_even(n) a calc.py.
Rinomina calc in gross_price in shop/prices.py.
Correggi l'errore in calc.py.
Adicione uma função is_even(n) a calc.py.
Renomeie calc para gross_price em shop/prices.py.
Corrija o erro em calc.py.
Por favor, mude a porta em config.json para 9090.
""".strip().splitlines()

OTHER_QUESTIONS = """
Was macht die Funktion calc in shop/prices.py?
Erkläre calc.py.
Warum schlägt test_calc.py fehl?
Welche Funktion wandelt einen Text in ein Datum um? Ändere nichts.
Zeige mir die Funktionen in calc.py.
Kannst du mir calc.py erklären?
Gib mir einen Überblick über das Projekt.
Que fait la fonction calc dans prices.py ?
Explique calc.py.
Pourquoi test_calc.py échoue ?
Quelle fonction convertit un texte en date ?
¿Qué hace la función calc en prices.py?
Explica calc.py.
¿Por qué falla test_calc.py?
¿Cuál función convierte un texto? No cambies nada.
Cosa fa calc in prices.py?
Spiega calc.py.
Perché fallisce test_calc.py?
O que faz a função calc em prices.py?
Explique calc.py.
Por que test_calc.py falha?
""".strip().splitlines()


@pytest.mark.parametrize("text", [*WITH_LIMITS, *ORDERS, *OTHER_ORDERS])
def test_changes(text: str) -> None:
    assert request_kind(text) == "change"


@pytest.mark.parametrize("text", [*QUESTIONS, *OTHER_QUESTIONS])
def test_questions(text: str) -> None:
    assert request_kind(text) == "question"


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text: str) -> None:
    assert request_kind(text) == "command"


@pytest.mark.parametrize("text", OPEN)
def test_unclear_requests(text: str) -> None:
    assert request_kind(text) == "unclear"


def test_kinds_of_the_benchmark_jobs() -> None:
    jobs = yaml.safe_load(JOBS.read_text(encoding="utf-8"))
    kinds = {job["name"]: read_request(job["prompt"]).kind for job in jobs}
    assert {name for name, kind in kinds.items() if kind != "change"} == {"dev-question"}
    assert kinds["dev-question"] == "question"
    commands = {job["name"]: read_request(job["prompt"]).commands for job in jobs}
    assert {name: found for name, found in commands.items() if found} == {"dev-fix-operator": ("python3 test_calc.py",)}


@pytest.mark.parametrize(
    "text",
    [
        "Rename calc in prices.py. Don't run `make deploy`.",
        "Rename calc in prices.py, but never run `python3 deploy.py`.",
        "Fix calc.py without running `make deploy`.",
        "Fix calc.py. Do not run `make deploy` or `make test`.",
        "Fix calc.py; don’t run python3 deploy.py.",
        "Document in README.md that the server is started with python3 server.py",
        "Document in README.md that the server is started with `python3 server.py`.",
        "Mention `make deploy` in README.md.",
        "Describe `pytest -q` in CONTRIBUTING.md.",
        "Add a section to README.md that shows how to run `python3 timer.py 10`.",
        "Add a section '## Usage' to README.md with the command `python3 timer.py 10`.",
        "The app is run with `python3 server.py`. Add a --port option to it.",
        "Make python3 div.py 1 0 print an error and exit with status 1.",
        "Make `python3 div.py 1 0` exit with status 1.",
        "Change div.py so that `python3 div.py 1 0` fails with an error.",
        "Change div.py so that python3 div.py prints the usage.",
        "`python3 div.py 1 0` should exit with code 2.",
        "python3 div.py 1 0 crashes; it should print an error message and exit with status 1.",
        "Tell me what `make deploy` does.",
        "Explain how `python3 server.py` is used.",
        "Benenne calc um. Führe `make deploy` nicht aus.",
        "Fix the server; it runs forever under python3 server.py somewhere.",
    ],
)
def test_forbidden_and_mentioned_commands_are_not_wanted(text: str) -> None:
    assert read_request(text).commands == ()


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("Fix calc.py and run `python3 test_calc.py`.", ("python3 test_calc.py",)),
        ("Fix calc.py, then run python3 test_calc.py.", ("python3 test_calc.py",)),
        ("Fix calc.py and test it with `pytest -q`.", ("pytest -q",)),
        ("Fix calc.py. Verify with `make lint`.", ("make lint",)),
        ("Fix calc.py. Check it using `python3 main.py --help`.", ("python3 main.py --help",)),
        ("Fix calc.py so that `pytest` passes.", ("pytest",)),
        ("Make `python3 main.py` work again.", ("python3 main.py",)),
        ("`python3 main.py` crashes. Fix it.", ("python3 main.py",)),
        ("`pytest` fails. Fix calc.py.", ("pytest",)),
        ("The tests (`npm test`) fail, repair them.", ("npm test",)),
        ("Run `ruff check .` and `mypy .` when you are done.", ("ruff check .", "mypy .")),
        ("Fix calc.py. Don't run `make deploy`, run `make test`.", ("make test",)),
        ("Document add in calc.py and run `pytest`.", ("pytest",)),
        ("Add an option --times to greet.py and run python3 greet.py --times 3.", ("python3 greet.py --times 3",)),
        ("Fix calc.py.\n- `pytest`\n", ("pytest",)),
        ("Rename calc_sum to total in shop/a.py, then run `python3 -m unittest`. pytest -q is off.", ("python3 -m unittest",)),
        ("Make sure that `cargo test` passes.", ("cargo test",)),
    ],
)  # fmt: skip
def test_wanted_commands(text: str, commands: tuple[str, ...]) -> None:
    assert read_request(text).commands == commands


@pytest.mark.parametrize(
    "text",
    [
        "Use camelCase for the names in app.js.",
        "Convert the names in users.py to snake_case.",
        "Sort the list in app.py without using sort_values.",
        "Add a flag to cli.py, but not --force.",
        "Use a set instead of old_list in app.py.",
        "Write the names like user_name in users.py.",
        "Add a cache to load.py, similar to page_cache.",
        "slug('hello_world') must return 'hello-world'.",
        "Rename the function(s) in a.py.",
        "Fix a.py and run pytest --maxfail=1.",
        "Make find in a.py O(n).",
        "Add a menu for macOS to app.py.",
    ],
)
def test_examples_and_unwanted_names_are_not_wanted(text: str) -> None:
    assert set(read_request(text).names) <= {"slug"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Add a function to_list(x) to a.py.", ("to_list",)),
        ("Add a function called get_name to a.py.", ("get_name",)),
        ("Add an option --upper to greet.py.", ("--upper",)),
        ("Add a function snake_case(text) to names.py.", ("snake_case",)),
        ("Add a function snake_case to names.py.", ("snake_case",)),
        ("Replace old_list by new_list, not like old_list.", ("old_list", "new_list")),
        ("Rename the function calc in shop/prices.py to gross_price.", ("gross_price",)),
    ],
)
def test_wanted_names(text: str, names: tuple[str, ...]) -> None:
    assert read_request(text).names == names


@pytest.mark.parametrize(
    ("text", "going"),
    [
        ("Change the name of calc in a.py to gross.", True),
        ("Give calc in a.py a better name.", True),
        ("Combine load_a and load_b into load.", True),
        ("Merge calc and total in a.py.", True),
        ("Turn the function calc into a method of Cart.", True),
        ("Convert calc in a.py into a property.", True),
        ("Move calc from a.py to b.py.", True),
        ("Split calc in a.py into two functions.", True),
        ("Inline calc in a.py.", True),
        ("Replace calc in a.py with gross.", True),
        ("Replace calc by gross.", True),
        ("Swap calc and total.", True),
        ("Get rid of calc in a.py.", True),
        ("Drop calc from a.py.", True),
        ("I want to remove calc from a.py.", True),
        ("calc should be called gross.", True),
        ("Benenne calc in a.py in gross um.", True),
        ("Supprime calc de a.py.", True),
        ("Elimina calc de a.py.", True),
        ("Add a function remove_user(name) next to calc in a.py.", False),
        ("Add a function to remove users next to calc in a.py.", False),
        ("Fix remove() in a.py, which calls calc.", False),
        ("Fix the bug in calc.", False),
        ("Add an option that deletes what calc made.", False),
        ("Add a command to move what calc made in a.py.", False),
    ],
)
def test_removable_names(text: str, going: bool) -> None:
    assert ("calc" in removable_names(text) or "load_a" in removable_names(text)) == going


def test_list_items() -> None:
    assert len(list_items("1. Increase the limit in a.py\n2. Put a link into README.md\n3. Run the tests")) == 3
    assert list_items("- the total is red\n- the load and save buttons") == []
