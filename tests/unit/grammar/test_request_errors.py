"""Errors in a request: the caret, the message and the example."""

import pickle

import pytest

from pit_grammar import RequestError, corrected, parse


def error_of(text: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse(text)
    return caught.value


SYNTAX = {
    "": (1, "the request is empty", ('"["', "a count (4)")),
    " \n": (1, "the request is empty", ('"["', "a count (4)")),
    "a100": (1, '"a100" is not allowed here', ('"["', "a count (4)")),
    "-1:[]": (1, '"-" is not allowed here', ('"["', "a count (4)")),
    "2:a100": (3, '"a100" is not allowed here', ('"["',)),
    "1:1:1": (3, '"1" is not allowed here', ('"["',)),
    "2": (2, "the request ends too early", ('":"', '"-"')),
    "2:[8:": (6, "the request ends too early", ("a kind (a100)",)),
    "2:[8:\n": (6, "the request ends too early", ("a kind (a100)",)),
    "2:[8:]": (6, '"]" is not allowed here', ("a kind (a100)",)),
    "2-": (3, "the request ends too early", ("a count (4)",)),
    "2-3[]": (4, '"[" is not allowed here', ('":"',)),
    "[": (2, "the request ends too early", ("a kind (a100)", '"]"', "a count (4)")),
    "[[[[": (2, '"[" is not allowed here', ("a kind (a100)", '"]"', "a count (4)")),
    "[a,]": (4, '"]" is not allowed here', ("a kind (a100)", "a count (4)")),
    "[.5:cpu]": (2, '"." is not allowed here', ("a kind (a100)", '"]"', "a count (4)")),
    "[2*a100]": (3, '"*" is not allowed here', ('":"', '"-"')),
    "[1080ti]": (6, '"ti" is not allowed here', ('":"', '"-"')),
    "[a100:2]": (6, '":" is not allowed here; the count comes first', ('"]"', '","')),
    "[GTX 1070]": (6, '"1070" is not allowed here; a kind is written without spaces', ('"]"', '","')),
    "[a100": (6, "the request ends too early", ('"]"', '","')),
    "[a100]]": (7, '"]" is not allowed here', ('","', '"@"', "the end")),
    "[],": (4, "the request ends too early", ('"["', "a count (4)")),
    "[]@": (4, "the request ends too early", ("the name of a node (n0) or of a label (rack)",)),
    "[]@rack=": (9, "the request ends too early", ("the value of the label (r9)",)),
    "[]@n0 n1": (7, '"n1" is not allowed here', ('"="', '","', "the end")),
    "[]\n,\n[é]": (7, '"é" is not allowed here', ("a kind (a100)", '"]"', "a count (4)")),
    "[２:a100]": (2, r'"\uff12" is not allowed here', ("a kind (a100)", '"]"', "a count (4)")),
}


@pytest.mark.parametrize("text", SYNTAX)
def test_a_syntax_error_has_its_column_and_what_was_expected(text: str) -> None:
    error = error_of(text)
    assert (error.column, error.message, error.expected) == SYNTAX[text]


CORRECTED = {
    "": "[]",
    "2": "2:[]",
    "5-2": "2-5:[]",
    "-1:[]": "1:[]",
    "[16G:mem]": "[16:mem]",
    "[16 GiB : mem]": "[16:mem]",
    "[512M:mem]": "[0.5:mem]",
    "[4:cpu,16G]": "[4:cpu,16:mem]",
    "[mem=16G]": "[16:mem]",
    "[500m:cpu]": "[0.5:cpu]",
    "[gpu=2]": "[2:gpu]",
    "[gpu:2,cpu:4,mem:16G]": "[2:gpu,4:cpu,16:mem]",
    "a100": "[a100]",
    "gpu@n0": "[gpu]@n0",
    "(2:a100)": "[2:a100]",
    "2 x [a100]": "2:[a100]",
    "2[a100]": "2:[a100]",
    "[2 a100]": "[2:a100]",
    "[2*a100]": "[2:a100]",
    "[4,cpu]": "[4:cpu]",
    "[GTX 1070]": "[GTX1070]",
    "[a,]": "[a]",
    "[a100": "[a100]",
    "[.5:cpu]": "[0.5:cpu]",
    "[] []": "[],[]",
    "[gpu]+[cpu]": "[gpu],[cpu]",
    "[[gpu]]": "[gpu]",
    "[2:[gpu]]": "2:[gpu]",
    "@n0": "[]@n0",
    "[3090]": "[gpu]",
}


@pytest.mark.parametrize("text", CORRECTED)
def test_a_common_mistake_is_answered_with_what_was_meant(text: str) -> None:
    error = corrected(error_of(text))
    assert error.message.endswith(f": write {CORRECTED[text]}")
    assert (error.text, error.column) == (text, error_of(text).column)
    assert error.example == CORRECTED[text]


@pytest.mark.parametrize("text", ["[é]", "1:1:1", "[]@", "[" * 4000, "1:" * 2000])
def test_without_a_good_guess_the_error_stays_as_it_is(text: str) -> None:
    assert str(corrected(error_of(text))) == str(error_of(text))


NINES = "9" * 4000
RULES = {
    "0:[]": (1, "the count 0 is zero; write 1 or more, or leave this part out"),
    "[a100,0:v100]": (7, "the count 0 is zero; write 1 or more, or leave this part out"),
    "[0-4:a100]": (2, "the count 0-4 is zero; write 1 or more, or leave this part out"),
    "[0.0:cpu]": (2, "the count 0.0 is zero; write 1 or more, or leave this part out"),
    "4-2:[]": (1, "the range 4-2 is empty; write 2-4"),
    "2:[ 4-2:a100]": (5, "the range 4-2 is empty; write 2-4"),
    "1.5:[]": (1, "1.5 is not a whole number; only cpu and mem take fractions"),
    "[2-2.5:a100]": (4, "2.5 is not a whole number; only cpu and mem take fractions"),
    "[cpu,0.5:a100]": (6, "0.5 is not a whole number; only cpu and mem take fractions"),
    "[2-4:cpu]": (2, "cpu cannot be elastic; write one number instead of 2-4"),
    "[0.5-2:mem]": (2, "mem cannot be elastic; write one number instead of 0.5-2"),
    "[0.0005:cpu]": (2, "0.0005:cpu is not a whole number of thousandths of a core; write 0.001:cpu"),
    "[0.00000001:cpu]": (2, "0.00000001:cpu is not a whole number of thousandths of a core; write 0.001:cpu"),
    "[2:a100,0.1:mem]": (9, "0.1:mem is not a whole number of MiB; write 0.125:mem"),
    "[99999.99:mem]": (2, "99999.99:mem is not a whole number of MiB; write 100000:mem"),
    "[100001:a100]": (2, "the count 100001 is too large; ask for 100,000 or less"),
    "[100000.5:mem]": (2, "the count 100000.5 is too large; ask for 100,000 or less"),
    "100001:[]": (1, "the count 100001 is too large; ask for 100,000 or less"),
    "[60000:a100,60000:a100]": (13, "the count 120000 is too large; ask for 100,000 or less"),
    "60000:[],[],1-50000:[]": (13, "the request asks for 110,001 processes; the maximum is 100,000"),
    "100000:[], []": (12, "the request asks for 100,001 processes; the maximum is 100,000"),
    f"{NINES}:[]": (1, "the count 99999999999999999999999… is too large; ask for 100,000 or less"),
    f"[2-{NINES}:a100]": (4, "the count 99999999999999999999999… is too large; ask for 100,000 or less"),
    f"[{NINES}.5:cpu]": (2, "the count 99999999999999999999999… is too large; ask for 100,000 or less"),
    f"[0.{NINES}:mem]": (2, "0.999999999999999999999… is not a whole number of MiB; write 1:mem"),
}


@pytest.mark.parametrize("text", RULES, ids=lambda text: text[:24])
def test_a_rule_error_has_its_column_and_says_what_to_do(text: str) -> None:
    error = error_of(text)
    assert (error.column, error.message) == RULES[text]


@pytest.mark.parametrize("text", [*SYNTAX, *RULES, "[]" * 3000], ids=lambda text: repr(text[:24]))
def test_the_example_of_an_error_is_valid(text: str) -> None:
    assert parse(error_of(text).example)


def test_an_error_shows_the_expression_the_caret_the_expected_and_an_example() -> None:
    assert str(error_of("2:[8:gtx1070,]")).splitlines() == [
        '"]" is not allowed here',
        "  2:[8:gtx1070,]",
        "               ^",
        "expected here: a kind (a100) or a count (4)",
        "for example: [2:a100]",
    ]


def test_three_expected_items_are_listed_with_commas() -> None:
    assert 'expected here: a kind (a100), "]" or a count (4)\n' in str(error_of("[,]"))


def text_at_caret(text: str) -> str:
    """The shown line from the caret on."""
    _, shown, caret, *_ = str(error_of(text)).splitlines()
    return shown[caret.index("^") :]


@pytest.mark.parametrize(
    "odd", ["\t", "\n", "\x1b[2J", "\u202e", "\ud800", "漢字", "e\u0301", "😀", "\x00", "\\"]
)
def test_odd_characters_are_escaped_and_the_caret_is_right(odd: str) -> None:
    error = error_of(f"[{odd}%]")
    text = str(error)
    assert text.replace("\n", "").isprintable()
    assert "漢" not in text
    assert len(text.splitlines()) == 5


def test_the_caret_is_right_after_escaped_characters() -> None:
    assert text_at_caret("[]\n\t%rest") == "%rest"


def test_a_long_request_is_shown_as_a_window_around_the_caret() -> None:
    text = "[a100]," * 100 + "%" + ",[a100]" * 100
    _, shown, _, *_ = str(error_of(text)).splitlines()
    assert len(shown) <= 80
    assert shown.startswith("  …")
    assert shown.endswith("…")
    assert text_at_caret(text).startswith("%,[a100],[a100]")


def test_a_long_text_of_odd_characters_fits_the_line_and_keeps_its_caret() -> None:
    _, shown, caret, *_ = str(error_of("😀" * 5000)).splitlines()
    assert len(shown) <= 80
    assert shown[caret.index("^") :].startswith(r"\U0001f600")


@pytest.mark.parametrize("length", range(30, 45))
def test_omitted_text_is_marked_with_dots(length: int) -> None:
    text = f"[{'a' * length}%{'b' * length}]"
    shown = str(error_of(text)).splitlines()[1]
    assert ("…" in shown) != (shown == f"  {text}")
    assert text_at_caret(text).startswith("%b")


def test_a_long_word_is_shortened_in_the_sentence() -> None:
    assert error_of("a" * 4000).message == f'"{"a" * 23}…" is not allowed here'


def test_a_request_of_4096_characters_is_accepted_and_one_more_is_refused() -> None:
    longest = f"[{'a' * 4094}]"
    assert str(parse(longest)) == longest
    error = error_of(longest + " ")
    assert (error.column, error.message) == (
        4097,
        "the request has 4,097 characters; put equal processes into one group",
    )


def test_100000_processes_are_allowed() -> None:
    assert parse("99999:[],[]").max_processes == 100_000


def test_an_error_survives_pickling() -> None:
    error = error_of("[a100")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
