from __future__ import annotations

import pytest

from tui_agent.engine.checks.request_reading import read_request
from tui_agent.engine.checks.request_scope import asks_for_tests_only
from tui_agent.engine.checks.static_checks import find_problems, lint_hints, syntax_error, with_fixed_imports

Files = dict[str, str]


def hard(request: str, before: Files, changed: Files) -> list[str]:
    return [one.text for one in find_problems(read_request(request), before, changed) if not one.soft]


def every(request: str, before: Files, changed: Files) -> list[str]:
    return [one.text for one in find_problems(read_request(request), before, changed)]


API = {"api.py": "def getName(user):\n    return user\n\n\ndef getAge(user):\n    return 1\n"}
SNAKE = {"api.py": "def get_name(user):\n    return user\n\n\ndef get_age(user):\n    return 1\n"}
PRIME = {"primes.py": "def is_prime(n):\n    return n > 1 and all(n % k for k in range(2, n))\n"}
MATHS = {"primes.py": "def double(n):\n    return 2 * n\n"}
BOTH = {"primes.py": MATHS["primes.py"] + "\n\n" + PRIME["primes.py"]}


# --- names that a request mentions ---


@pytest.mark.parametrize(
    "request_",
    [
        "Convert the camelCase names in api.py to snake_case.",
        "Use snake_case instead of camelCase in api.py.",
        "Rename the functions in api.py to snake_case.",
        "Make the names in api.py PascalCase-free: snake_case everywhere.",
        "Change all names in api.py from camelCase to snake_case",
        "Refactor api.py to the naming of PEP 8, snake_case.",
    ],
)
def test_name_styles_are_not_names(request_: str) -> None:
    assert hard(request_, API, SNAKE) == []
    assert not any("nowhere" in one for one in every(request_, API, SNAKE))


@pytest.mark.parametrize(
    "request_",
    [
        "Implement is_prime(n) in primes.py without using sqrt().",
        "Add a function is_prime(n) to primes.py. Do not use math.sqrt().",
        "Add is_prime(n) to primes.py; it must not call divmod().",
        "Write a function is_prime(n) in primes.py instead of numpy's isPrime().",
        "Add a function is_prime(n) to primes.py like isPrime() in Java.",
        "Create is_prime(n) in primes.py, which is called by run_all().",
        "Add is_prime(n) to primes.py, similar to sympy's isprime().",
        "Add the missing function(s) to primes.py: is_prime(n)",
    ],
)
def test_mentioned_names_need_not_exist(request_: str) -> None:
    assert every(request_, MATHS, BOTH) == []


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Add a function to_list(x) to primes.py", "to_list"),
        ("Please implement to_list(x) in primes.py.", "to_list"),
        ("Write the functions to_list(x) and to_set(x).", "to_set"),
        ("Add an option --upper to primes.py", "--upper"),
        ("Define a constant MAX_SIZE in primes.py", "MAX_SIZE"),
        ("primes.py needs a function to_list(x)", "to_list"),
        ("Add a function to primes.py called to_list", "to_list"),
        ("Add a helper to primes.py without using sqrt(), then create a method to_list()", "to_list"),
        ("Create a file lists.py with a function to_list(x)", "to_list"),
        ("Introduce a `to_list` helper in primes.py", "to_list"),
    ],
)
def test_names_to_be_created_must_exist(request_: str, name: str) -> None:
    assert f"{name} is nowhere" in hard(request_, MATHS, BOTH)


def test_other_missing_names_are_soft_problems() -> None:
    assert hard("Make double in primes.py faster with bit_shift()", MATHS, BOTH) == []


@pytest.mark.parametrize(
    "request_",
    [
        "Create a file slug.py with a function slugify(title)",
        "Create slug.py.",
        "Please create a new Python module called slug.py",
        "Move the helpers of app.py into a new file slug.py",
        "Write tests for slugify in a new file test_slug.py",
        "Add a CONTRIBUTING.md that says how to help",
        "Fix app.py and add a file slug.py",
    ],
)
def test_files_to_be_created_must_exist(request_: str) -> None:
    before = {"app.py": "X = 1\n"}
    changed = {"app.py": "X = 2\n\n\ndef slugify(title):\n    return title\n"}
    assert any("is not there" in one for one in hard(request_, before, changed))
    (path,) = [path for path in read_request(request_).paths if path != "app.py"]
    assert hard(request_, before, {path: changed["app.py"]}) == []


@pytest.mark.parametrize(
    "request_",
    [
        "Make app.py write its output to report.csv.",
        "app.py should create a file out.txt with the result.",
        "Add build.log to .gitignore",
        "Read the settings in app.py from config.toml if it is there.",
        "Add a function to app.py that creates a new file data.json.",
        "Add math.sqrt() to app.py",
        "Create Stack.peek in app.py",
        "Do not create slug.py, change app.py.",
    ],
)
def test_mentioned_files_need_not_exist(request_: str) -> None:
    before = {"app.py": "class Stack:\n    size = 1\n", ".gitignore": "x\n"}
    changed = {
        "app.py": "import math\n\n\nclass Stack:\n    size = math.sqrt(2)\n\n    def peek(self):\n        return 1\n",
        ".gitignore": "x\nbuild.log\n",
    }
    assert hard(request_, before, changed) == []


# --- what is gone ---

POINT = "class P:\n    def __init__(self, x):\n        self.x = x\n\n    def __eq__(self, other):\n        return self.x == other.x\n"
DATA = "from dataclasses import dataclass\n\n\n@dataclass\nclass P:\n    x: int\n"


@pytest.mark.parametrize(
    "request_",
    [
        "Convert the class P in p.py to a dataclass.",
        "Make P a dataclass.",
        "Use a dataclass for P in p.py",
        "P in p.py should be a dataclass",
    ],
)
def test_special_methods_may_disappear(request_: str) -> None:
    assert hard(request_, {"p.py": POINT}, {"p.py": DATA}) == []


@pytest.mark.parametrize(
    "request_",
    [
        "Merge the two functions in m.py into one",
        "Turn the functions of m.py into one",
        "Refactor m.py.",
        "Combine what m.py does in one function",
        "Inline the helper in m.py",
        "Remove the unused function from m.py",
        "Simplify m.py",
        "Make the helper in m.py private",
        "In m.py use a single expression instead of a helper",
    ],
)
def test_losses_in_a_restructuring_are_soft_problems(request_: str) -> None:
    before = {"m.py": "def _part(x):\n    return x + 1\n\n\ndef run(x):\n    return _part(x)\n"}
    assert hard(request_, before, {"m.py": "def run(x):\n    return x + 1\n"}) == []


@pytest.mark.parametrize("request_", ["Fix the bug in m.py", "Add a function third() to m.py", "m.py is wrong."])
def test_losses_without_a_reason_are_hard_problems(request_: str) -> None:
    before = {"m.py": "def first(x):\n    return x + 1\n\n\ndef second(x):\n    return x\n"}
    changed = {"m.py": "def first(x):\n    return x + 2\n\n\ndef third():\n    return 1\n"}
    assert "m.py: second is gone" in hard(request_, before, changed)


# --- files that can't be read ---

TSCONFIG = '{\n  // how strict\n  "compilerOptions": {\n    "strict": false, /* why */\n  },\n}\n'


def test_json_with_comments_may_keep_them() -> None:
    good = TSCONFIG.replace("false", "true")
    for name in ("tsconfig.json", "conf/settings.json"):
        request = f"Set strict in {name} to true."
        assert every(request, {name: TSCONFIG}, {name: good}) == []
        assert "has an error" in hard(request, {name: TSCONFIG}, {name: good.replace('"strict"', '"strict')})[0]
    assert "has an error" in hard("Set a to 2 in a.json", {"a.json": '{"a": 1}'}, {"a.json": '{"a": 2,}'})[0]
    assert "has an error" in hard("a.json is not valid. Fix it.", {"a.json": '{"a": 1,}'}, {"a.json": '{"a": 2,}'})[0]
    assert syntax_error("x.json", '{"a": "// no comment, ]"}') == ""


@pytest.mark.parametrize(
    "text",
    [
        "Resources:\n  A:\n    Ref: !Ref Other\n    Sub: !Sub '${A}-b'\n",
        "a: !!python/name:os.path.join\n",
        "a: !vault |\n  xyz\nb: !reference [x, y]\n",
        "theme: !ENV [A, b]\n---\nb: 1\n",
    ],
)
def test_yaml_tags_are_no_errors(text: str) -> None:
    assert syntax_error("a.yaml", text) == ""
    assert syntax_error("a.yml", text + "c: [1, 2\n") != ""


def test_previous_errors_are_no_problems() -> None:
    old = "name: {{ app }}\nport: {{ port }}: 1\n"
    assert every("Set the name in t.yaml", {"t.yaml": old}, {"t.yaml": old.replace("app", "apps")}) == []
    broken = {"a.py": "def f(:\n    return 1\n"}
    still = {"a.py": "def f(:\n    return 2\n"}
    for request in ("a.py has a syntax error. Fix it.", "Fix a.py.", "a.py does not start, repair it"):
        assert hard(request, broken, still) != []
        assert hard(request, broken, {"a.py": "def f():\n    return 1\n"}) == []


# --- tests that may be changed, and those that may not ---

SUM = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 6\n",
}
MENDED_TEST = {"test_calc.py": SUM["test_calc.py"].replace("== 6", "== 5")}
MORE_TESTS = {"test_calc.py": SUM["test_calc.py"] + "\n\ndef test_zero():\n    assert add(0, 0) == 0\n"}


@pytest.mark.parametrize(
    "request_",
    [
        "test_add in test_calc.py expects 6. Fix the test.",
        "test_add expects 6, but 2 + 3 is 5. Correct the test.",
        "The test in test_calc.py is wrong: it expects 6. Fix it.",
        "Repair test_add in test_calc.py",
        "test_calc.py fails because the test is wrong. Fix it.",
        "test_add fails because its expected value is wrong. Fix the test.",
        "There is a mistake in test_calc.py: 2 + 3 is 5. Fix it.",
        "Update the tests to the new sums.",
        "Adapt test_add to what add gives.",
        "add was moved to sums.py, so the tests fail. Fix them.",
        "Please replace calc.py by sums.py and make the tests pass",
        "test_calc.py has the wrong expected value. Fix it",
    ],
)
def test_a_test_may_change_on_request(request_: str) -> None:
    assert every(request_, {**SUM, "sums.py": SUM["calc.py"]}, MENDED_TEST) == []


@pytest.mark.parametrize(
    "request_",
    [
        "The test in test_calc.py fails. Fix it.",
        "test_calc.py fails. Make it pass.",
        "Fix the failing test.",
        "Fix the failing tests in test_calc.py",
        "Make the failing test pass.",
        "Make test_calc.py pass",
        "Fix calc.py so that the tests pass.",
        "The tests are red. Find out why and fix it.",
        "Get the tests green.",
        "test_add is failing, please repair it",
        "The test fails because add returns 5 instead of 6. Fix it.",
        "Fix calc.py. Do not change the tests.",
        "Run test_calc.py and fix what fails",
        "add drops the last number, so test_calc.py fails. Fix it.",
        "add should not remove anything: the test fails. Fix it.",
        "remove_all() and add() are wrong, test_calc.py fails",
    ],
)
def test_a_failing_test_must_not_change(request_: str) -> None:
    assert "test_calc.py must stay as it is" in hard(request_, SUM, MENDED_TEST)
    skipped = SUM["test_calc.py"].replace("def test_add", "import pytest\n\n\n@pytest.mark.skip\ndef test_add")
    assert "test_calc.py must stay as it is" in hard(request_, SUM, {"test_calc.py": skipped})
    assert hard(request_, SUM, {"calc.py": "def add(a, b):\n    return a + b + 1\n"}) == []
    assert not asks_for_tests_only(request_)


def test_test_changes_are_soft_problems_for_an_unclear_request() -> None:
    assert hard("The test fails. Fix the test.", SUM, MENDED_TEST) == []
    assert every("Make add in calc.py faster", SUM, MORE_TESTS) == []
    assert hard("Make add in calc.py faster", SUM, MENDED_TEST) == []


@pytest.mark.parametrize(
    ("request_", "only"),
    [
        ("Write tests for to_roman in a new file test_roman.py with unittest, at least three, and run them.", True),
        ("Add a test for add to test_calc.py.", True),
        ("Write unit tests for calc.py.", True),
        ("Please add a second test to test_calc.py that tries zero", True),
        ("Create test_roman.py with tests for to_roman in roman.py", True),
        ("Create a file with tests for roman.py.", True),
        ("Write tests for roman.py and make sure that they pass.", True),
        ("calc.py has no tests. Write some.", True),
        ("Fix the test test_add in test_calc.py.", True),
        ("test_add expects 6. Fix the test.", True),
        ("The test in test_calc.py is wrong: it expects 6. Fix it.", True),
        ("test_calc.py fails because the test is wrong. Fix it.", True),
        ("Add a docstring to test_calc.py", True),
        ("The test in test_calc.py fails. Fix it.", False),
        ("test_shop.py fails. Make it pass.", False),
        ("Fix the failing test", False),
        ("The test fails. Fix the test.", False),
        ("Fix the bug in calc.py and add a test.", False),
        ("Add a function mul(a, b) to calc.py with a test in test_calc.py.", False),
        ("Add a mul function and a test for it in test_calc.py.", False),
        ("Write a test for mul and fix calc.py.", False),
        ("Add a test for zero to test_calc.py and make it pass.", False),
        ("Add doctests to calc.py", False),
        ("Add tests in calc.py under the main guard", False),
        ("Write tests for sum.js in sum.test.js", False),
        ("Rename add in calc.py to plus.", False),
        ("Refactor calc.py. All tests must pass.", False),
        ("Run the tests.", False),
        ("", False),
    ],
)
def test_requests_for_tests_only(request_: str, only: bool) -> None:
    assert asks_for_tests_only(request_) is only


# --- imports ---


def test_previously_dangling_imports_are_no_problems() -> None:
    before = {"shop/__init__.py": "", "app.py": "from shop import tax\n\nprint(tax.rate())\n"}
    changed = {"app.py": "import sys\n\nfrom shop import tax\n\nprint(tax.rate(), sys.argv)\n"}
    assert every("Print the arguments in app.py", before, changed) == []
    new = {"app.py": before["app.py"].replace("import tax", "import tax, net")}
    assert hard("Print the net price in app.py", before, new) == []
    lost = hard(
        "Change what f gives",
        {"src/m.py": "def f():\n    return 1\n", "src/app.py": "from m import f\n\nprint(f())\n"},
        {"src/m.py": "def g():\n    return 2\n"},
    )
    assert "src/app.py line 1 imports f from m, which does not define it" in lost
    assert "does not define it" in hard("Use total in b.py", {"a.py": "X = 1\n", "b.py": ""}, {"b.py": "from a import total\n\nprint(total)\n"})[0]  # fmt: skip


# --- renames ---

PRICES = {
    "prices.py": "def calc(net):\n    return net * 2\n\n\ndef both(net):\n    return calc(net), calc(1)\n",
    "cart.py": "import prices\n\n\ndef total(x):\n    return prices.calc(x)\n",
    "other.py": "def show(calc):\n    return calc + 1\n\n\nclass Other:\n    def calc(self):\n        return self.calc\n",
}
SAYINGS = [
    "Rename calc in prices.py to {}, everywhere it is used.",
    "Rename the function calc in prices.py to {}.",
    "Rename the function `calc` to `{}` in the whole project.",
    "Rename prices.calc to {}",
    "Please rename calc() in prices.py to {}() everywhere",
    "Change the name of the function calc in prices.py to {}.",
    "Change the name of calc to {} everywhere.",
    "Change calc's name to {}.",
    "Change the function name calc to {} in prices.py",
    "The function calc in prices.py should be called {}.",
    "calc in prices.py should be renamed to {}.",
    "Call calc {} instead.",
    "The function calc in prices.py is badly named. Name it {}.",
    "calc in prices.py is a bad name. Call it {} everywhere.",
    "I don't like the name of calc in prices.py. Rename it to {}.",
    "Give the function calc in prices.py the better name {}.",
]


def renamed(new: str, **others: str) -> Files:
    changed = {"prices.py": PRICES["prices.py"].replace("calc", new)}
    changed["cart.py"] = PRICES["cart.py"].replace("calc", new)
    return {**changed, **others}


@pytest.mark.parametrize("new", ["gross", "gross_price"])
@pytest.mark.parametrize("saying", SAYINGS)
def test_a_rename_must_be_complete(saying: str, new: str) -> None:
    request = saying.format(new)
    assert every(request, PRICES, renamed(new)) == []
    left = hard(request, PRICES, renamed(new, **{"cart.py": PRICES["cart.py"]}))
    assert left == ["cart.py line 5: prices.calc is called prices." + new + " now"] or len(left) == 1
    twice = PRICES["prices.py"] + f"\n\ndef {new}(net):\n    return net * 2\n"
    assert any("calc is to be called" in one for one in hard(request, PRICES, {"prices.py": twice}))
    alias = PRICES["prices.py"].replace("calc", new) + f"\n\ncalc = {new}\n"
    assert hard(request, PRICES, renamed(new, **{"prices.py": alias})) != []


@pytest.mark.parametrize(
    "cart",
    [
        "import prices as p\n\n\ndef total(x):\n    return p.calc(x)\n",
        "import shop\n\n\ndef total(x):\n    return shop.prices.calc(x)\n",
        "import shop.prices\n\n\ndef total(x):\n    return shop.prices.calc(x)\n",
        "from shop import prices\n\n\ndef total(x):\n    return prices.calc(x)\n",
        "from . import prices\n\n\ndef total(x):\n    return prices.calc(x)\n",
        "from .prices import calc\n\n\ndef total(x):\n    return calc(x)\n",
        "from shop.prices import calc as price\n\n\ndef total(x):\n    return price(x)\n",
        "from shop import calc\n\n\ndef total(x):\n    return calc(x)\n",
    ],
)
def test_uses_of_a_renamed_function(cart: str) -> None:
    before = {
        "shop/__init__.py": "from .prices import calc\n",
        "shop/prices.py": "def calc(net):\n    return net * 2\n",
        "shop/cart.py": cart.replace("import prices as p", "import shop.prices as p"),
    }
    request = "Rename calc in shop/prices.py to gross everywhere."
    whole = {name: text.replace("calc", "gross") for name, text in before.items()}
    assert every(request, before, whole) == []
    part = {name: whole[name] for name in ("shop/__init__.py", "shop/prices.py")}
    found = hard(request, before, part)
    if "import shop\n" not in cart:
        assert found != []


def test_other_things_of_the_same_name_may_stay() -> None:
    request = "Rename calc in prices.py to gross everywhere"
    local = renamed("gross", **{"cart.py": "import prices\n\n\ndef total(calc):\n    return prices.gross(calc)\n"})
    assert every(request, PRICES, local) == []
    other = {**PRICES, "tax.py": "def calc():\n    return 1\n\n\nclass T:\n    calc = 2\n\n\nprint(T.calc, calc())\n"}
    assert every(request, other, renamed("gross")) == []


@pytest.mark.parametrize(
    "request_",
    [
        "Rename calc in prices.py to gross and keep calc as an alias.",
        "Rename calc in prices.py to gross; the old name must go on working.",
        "Rename calc to gross, but deprecate calc first.",
    ],
)
def test_the_old_name_may_stay_on_request(request_: str) -> None:
    alias = PRICES["prices.py"].replace("calc", "gross") + "\n\ncalc = gross\n"
    assert hard(request_, PRICES, {"prices.py": alias}) == []


def test_mentions_of_the_old_name_are_soft_problems() -> None:
    before = {**PRICES, "README.md": "Use `calc` or prices.calc(1).\n", "CHANGELOG.md": "- `calc` is new\n"}
    found = find_problems(read_request("Rename calc in prices.py to gross"), before, renamed("gross"))
    assert [one.soft for one in found] == [True] and "README.md" in found[0].text
    prose = {**PRICES, "README.md": "We calc all day.\n"}
    assert every("Rename calc in prices.py to gross", prose, renamed("gross")) == []


CART = "class Cart:\n    def add(self, x):\n        return x\n\n    def twice(self, x):\n        return self.add(self.add(x))\n"


def test_renames_of_methods_and_parameters() -> None:
    before = {"cart.py": CART, "app.py": "from cart import Cart\n\nprint(Cart().add(1), {1}.add(2))\n"}
    whole = {"cart.py": CART.replace("add", "append"), "app.py": before["app.py"].replace("().add", "().append")}
    for request in ("Rename the method add of Cart to append.", "Rename Cart.add to append", "Rename Cart's method add to append"):  # fmt: skip
        assert every(request, before, whole) == []
        half = {**whole, "cart.py": CART.replace("def add", "def append")}
        assert hard(request, before, half) != []
        both = CART + "\n    def append(self, x):\n        return x\n"
        assert hard(request, before, {"cart.py": both}) != []
    pages = {"p.py": "def page(n):\n    return n\n", "q.py": "from p import page\n\nprint(page(n=1))\n"}
    request = "Rename the parameter n of page in p.py to number everywhere"
    good = {"p.py": "def page(number):\n    return number\n", "q.py": pages["q.py"].replace("n=1", "number=1")}
    assert every(request, pages, good) == []
    assert hard(request, pages, {"p.py": good["p.py"]}) == ["q.py line 3: page(n=…) has to be page(number=…)"]


def test_renames_in_other_languages() -> None:
    before = {
        "prices.js": "export function calc(net) {\n  return net * 2; // calc\n}\n",
        "cart.js": "import { calc } from './prices.js';\n\nexport const total = (x) => calc(x);\n",
        "other.js": "export class T {\n  calc() { return this.calc; }\n}\nconst f = (calc) => calc + 1;\n",
    }
    whole = {name: before[name].replace("calc", "gross") for name in ("prices.js", "cart.js")}
    request = "Rename the function calc in prices.js to gross everywhere."
    assert every(request, before, whole) == []
    assert hard(request, before, {"prices.js": whole["prices.js"]}) == ["cart.js: calc is called gross now"]
    both = before["prices.js"] + whole["prices.js"]
    assert hard(request, before, {"prices.js": both, "cart.js": whole["cart.js"]}) != []


@pytest.mark.parametrize(
    "request_",
    [
        "calc in prices.py should be called with two numbers.",
        "calc should be called only once in both(), see prices.py.",
        "calc must be called lazily",
        "Rename calc to something clearer.",
        "Add a function to prices.py and call it net_price.",
        "Change calc in prices.py to round the result.",
        "Extract the doubling of calc into a function, name it net_price.",
        "Rename the file prices.py to costs.py",
        "Change the name of the shop in prices.py",
    ],
)
def test_sentences_that_are_no_renames(request_: str) -> None:
    text = PRICES["prices.py"].replace("net * 2", "round(net * 2)") + "\n\ndef net_price(x):\n    return x\n"
    found = every(request_, PRICES, {"prices.py": text, "costs.py": text})
    assert [one for one in found if "called" in one or "nowhere" in one] == []


def test_a_missing_rename_is_a_problem() -> None:
    worse = {"prices.py": PRICES["prices.py"].replace("* 2", "* 3")}
    assert hard("Rename calc in prices.py to gross", PRICES, worse) == ["gross is nowhere"]


# --- bounds ---


def test_deep_and_large_files() -> None:
    deep = "x = " + "(" * 3_000 + ")" * 3_000 + "\n"
    sums = "x = " + "+".join(["1"] * 30_000) + "\n"
    for text in (deep, sums):
        lint_hints({"a.py": text})
        with_fixed_imports(text, None)
        find_problems(read_request("Make it faster"), {"a.py": sums}, {"a.py": text})
    assert syntax_error("a.json", "[" * 200_000) == ""
